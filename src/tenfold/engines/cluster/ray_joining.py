"""A process's way into a Ray cluster: one of its own, or one at an address. It can be in one at a time."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from tenfold import machine
from tenfold.engines.cluster.ray_process import RayProcess
from tenfold.errors import BadCall, ClusterLost

_HICCUPS = ("Starting Ray client server failed", "ZombieProcess")
"""How Ray fails to start its server for a client on a busy machine, now and then; it works the next time."""
_TRIES = 4  # seen to be wanted: 3
TOKEN_VARIABLE = "RAY_AUTH_MODE"
GRACE_VARIABLE = "RAY_CLIENT_RECONNECT_GRACE_PERIOD"
CONNECT_LIMIT = 5.0  # seconds until an address counts as unreachable
HEAD_LIMIT = 10.0  # seconds without an answer after which the head counts as gone; it may be starting again
ASK_AGAIN = 0.5

_lock = threading.Lock()
_joined = ""
_process: RayProcess | None = None  # a cluster that was started here


def begin() -> None:
    """Start a cluster of our own, where this process is in none: it comes up while the caller imports Ray."""
    global _process
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        return
    here = machine.look()
    with _lock:
        if _process is not None and _process.gpus != len(here.gpus):  # it has the GPUs that there were at its start
            _end_process()
        if _process is None:
            _process = RayProcess(max(1, int(here.cpus)), len(here.gpus))


def join(address: str) -> str:
    """Have this process in the cluster at `address`; returns a name for its stay there."""
    global _joined
    import ray

    if address == "ray" and _joined and _process is not None and _process.gpus != len(machine.look().gpus):
        leave()
    if address == "ray":
        begin()
    with _lock:
        if not ray.is_initialized():
            if address == "ray":
                _enter()
            else:
                _connect(address)
            _joined = address
        elif not _joined:
            _end_process()  # the user has joined another one since it was begun
        elif address not in ("ray", _joined):
            raise BadCall(
                f"engine={address!r}: this process has joined another Ray cluster ({_joined}), and Ray allows only one"
            )
        here = ray.get_runtime_context()
        return f"{here.get_node_id()} {here.get_job_id()}"


def _enter() -> None:
    """Join the cluster that was started here."""
    import ray

    assert _process is not None, "begin() comes first"
    try:
        address = _process.address()
        with _tokens("token"):
            ray.init(address=address, log_to_driver=False, configure_logging=False)
    except BaseException:
        _end_process()
        raise


@contextlib.contextmanager
def _tokens(mode: str) -> Iterator[None]:
    """Ray takes this process to have said in its environment whether it shows tokens, where the user has not.

    `ray.init` would leave that in the environment of the caller, and the next cluster would refuse it.
    """
    try:
        from ray._private.authentication.authentication_token_setup import enable_token_auth_by_default  # noqa: F401
        from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]
    except ImportError:  # an older one: no tokens unless it is told to
        yield
        return
    if TOKEN_VARIABLE in os.environ:
        yield
        return
    os.environ[TOKEN_VARIABLE] = mode
    try:
        Config.initialize("")
        AuthenticationTokenLoader.instance().reset_cache()
        yield
    finally:
        del os.environ[TOKEN_VARIABLE]


def _end_process() -> None:
    global _process
    if _process is not None:
        _process.close()
        _process = None


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
    for left in reversed(range(_TRIES)):
        try:
            ray.init(address=_find(where), **options)
            _bound_silence()
            return
        except Exception as error:
            if not left or not any(hiccup in str(error) for hiccup in _HICCUPS):
                raise ClusterLost(f"no Ray cluster answers at {address}: {type(error).__name__}: {error}") from error


def _bound_silence() -> None:
    """Ray Client tries for half a minute to reach a head that is gone, where the user says nothing else."""
    import ray

    worker = ray.util.client.ray.get_context().client_worker  # None where it is no client
    if worker is not None and GRACE_VARIABLE not in os.environ:
        worker._reconnect_grace_period = int(HEAD_LIMIT)  # private to Ray: under another name, nothing changes


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


def has_head() -> bool:
    """Whether somebody answers where this process has joined.

    Asked before Ray is, because that waits a minute for its head, and then ends the process that it is in.
    """
    import grpc
    import ray
    from ray._private.grpc_utils import init_grpc_channel
    from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc

    if ray.util.client.ray.is_connected():  # through Ray Client, which says it by itself
        return True
    deadline = time.monotonic() + HEAD_LIMIT
    with contextlib.closing(init_grpc_channel(ray.get_runtime_context().gcs_address)) as channel:
        stub = gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel)
        while True:
            left = deadline - time.monotonic()
            try:
                stub.CheckAlive(gcs_service_pb2.CheckAliveRequest(), timeout=max(ASK_AGAIN, left))
                return True
            except grpc.RpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    return True  # somebody does
            if left < 0:
                return False
            time.sleep(ASK_AGAIN)


def is_ours() -> bool:
    """Whether this process is in a cluster that it has started."""
    return bool(_joined) and _process is not None


def leave() -> None:
    """Leave the cluster that was joined here; one that was started here ends."""
    global _joined
    with _lock:
        if _joined:
            import ray

            with contextlib.suppress(Exception):
                ray.shutdown()
            if _process is not None:
                with _tokens("disabled"):  # until the next one
                    pass
        _end_process()
        _joined = ""
