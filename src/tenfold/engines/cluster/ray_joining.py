"""A process's way into a Ray cluster: one of its own, or one at an address. It can be in one at a time."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable
from typing import Any

from tenfold import machine
from tenfold.engines.cluster.ray_watch import Watch
from tenfold.errors import BadCall, ClusterLost

_HICCUPS = ("Starting Ray client server failed", "ZombieProcess")
"""How Ray fails to start its server for a client on a busy machine, now and then; it works the next time."""
CONNECT_LIMIT = 5.0  # seconds until an address counts as unreachable

_lock = threading.Lock()
_joined = ""
_watch: Watch | None = None  # over a cluster that was started here
_gpus = 0  # that it has


def join(address: str) -> str:
    """Have this process in the cluster at `address`; returns a name for its stay there."""
    global _joined
    import ray

    gpus = len(machine.look().gpus)
    if address == "ray" and _watch is not None and gpus != _gpus:
        leave()  # one of our own has the GPUs that there were when it was started
    with _lock:
        if not ray.is_initialized():
            if address == "ray":
                _start(gpus)
            else:
                _connect(address)
            _joined = address
        elif _joined and address not in ("ray", _joined):
            raise BadCall(
                f"engine={address!r}: this process has joined another Ray cluster ({_joined}), and Ray allows only one"
            )
        here = ray.get_runtime_context()
        return f"{here.get_node_id()} {here.get_job_id()}"


def _start(gpus: int) -> None:
    global _watch, _gpus
    import ray

    folder = tempfile.mkdtemp(prefix="tfr-", dir="/tmp")  # the names of Ray's sockets must be short
    _watch = Watch(folder)
    options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    cpus = max(1, int(machine.look().cpus))
    _in_a_thread_that_stays(
        lambda: ray.init(address="local", num_cpus=cpus, num_gpus=gpus, _temp_dir=folder, **options)
    )
    _gpus = gpus


def _in_a_thread_that_stays(start: Callable[[], object]) -> None:
    """Ray's processes are killed by the kernel when the thread that has started them ends, and then Ray ends us."""
    if threading.current_thread() is threading.main_thread():
        start()
        return
    done = threading.Event()
    faults: list[BaseException] = []

    def stay() -> None:
        try:
            start()
        except BaseException as error:
            faults.append(error)
            return
        finally:
            done.set()
        threading.Event().wait()

    threading.Thread(target=stay, name="ray_starter", daemon=True).start()
    done.wait()
    if faults:
        raise faults[0]


def _connect(address: str) -> None:
    import ray

    where = address.removeprefix("ray://")
    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    if where != "auto":
        host, _, port = where.rpartition(":")
        if not host or not port.isdigit():
            raise BadCall(f'engine={address!r}: expected "ray", "ray://auto" or "ray://host:port"')
        if int(port) > 65535:
            raise BadCall(f"engine={address!r}: a port is at most 65535")
    for again in (True, False):
        try:
            ray.init(address=_find(where), **options)
            return
        except Exception as error:
            if not again or not any(hiccup in str(error) for hiccup in _HICCUPS):
                raise ClusterLost(f"no Ray cluster answers at {address}: {type(error).__name__}: {error}") from error


def _find(where: str) -> str:
    """What `ray.init` needs for an address: a Ray Client port or a GCS port. Asked here, because Ray takes 30 s."""
    import grpc
    from ray._private import services
    from ray._private.grpc_utils import init_grpc_channel
    from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc, ray_client_pb2, ray_client_pb2_grpc

    found = services.canonicalize_bootstrap_address(where) if where == "auto" else where
    if found is None:
        raise ConnectionError("no cluster runs on this machine; start one with: ray start --head")
    with contextlib.closing(init_grpc_channel(found)) as channel:
        ping = ray_client_pb2.ClusterInfoRequest(type=ray_client_pb2.ClusterInfoType.PING)
        me = [("client_id", os.urandom(16).hex())]
        client_port = ray_client_pb2_grpc.RayletDriverStub(channel)
        gcs_port = gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel)
        alive = gcs_service_pb2.CheckAliveRequest()
        questions: dict[str, Callable[[], object]] = {
            f"ray://{found}": lambda: client_port.ClusterInfo(ping, timeout=CONNECT_LIMIT, metadata=me),
            found: lambda: gcs_port.CheckAlive(alive, timeout=CONNECT_LIMIT),
        }
        for answer, ask in questions.items():
            try:
                ask()
                return answer
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.UNIMPLEMENTED:
                    continue
                if error.code() == grpc.StatusCode.UNAUTHENTICATED:
                    text = "it wants another token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"
                    raise ConnectionError(text) from error
                raise ConnectionError(f"{error.code().name}: {error.details()}") from error
    raise ConnectionError("something else answers there")


def leave() -> None:
    """Leave the cluster that was joined here; one that was started here ends."""
    global _joined, _watch
    with _lock:
        if not _joined:
            return
        import ray

        with contextlib.suppress(Exception):
            ray.shutdown()
        if _watch is not None:
            _watch.close()
            _watch = None
        _joined = ""
