"""Ray: a cluster that is joined by its address, with a token; and addresses where there is none."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray_clusters
from dask_clusters import committed, traces
from ray_clusters import TOKEN_VARIABLES, Head

import scripts
import tenfold
import waiting
from tenfold import errors
from tenfold.engines.cluster import facts

LIMIT = 10.0


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    with ray_clusters.in_the_background(), ray_clusters.head(tmp_path_factory.mktemp("head")) as found:
        yield found


_TWICE = """
    import json, os
    import tenfold

    first = list(tenfold.map(lambda x: (x * x, os.getppid()), range(20), engine={address!r}))
    second = list(tenfold.map(lambda x: x + round(tenfold.here().rng.random(), 6), range(20), engine={address!r}))
    print(json.dumps([[square for square, _ in first], second]))
"""


def _expected() -> list[object]:
    return [
        [x * x for x in range(20)],
        list(tenfold.map(lambda x: x + round(tenfold.here().rng.random(), 6), range(20), engine="serial")),
    ]


@pytest.mark.parametrize("way", ["client", "gcs", "auto"])
def test_two_calls(way: str, head: Head, tmp_path: Path) -> None:
    address = {"client": head.address, "gcs": f"ray://127.0.0.1:{head.port}", "auto": "ray://auto"}[way]
    variables = {**TOKEN_VARIABLES, "RAY_ADDRESS": f"127.0.0.1:{head.port}"} if way == "auto" else TOKEN_VARIABLES
    ended = scripts.run(tmp_path, _TWICE.format(address=address), variables)
    assert json.loads(ended.out.splitlines()[-1]) == _expected()
    assert "Traceback" not in ended.err


def test_two_callers_share_a_cluster(head: Head, tmp_path: Path) -> None:
    """The second one waits until the first one's tasks make room, or takes what is free."""
    text = """
        import pathlib, time
        import tenfold

        def work(x):
            pathlib.Path({folder!r}, "began {name}").touch()
            deadline = time.monotonic() + 20
            while not pathlib.Path({folder!r}, "began {other}").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.05)
            return x * x

        print(list(tenfold.map(work, range(10), engine={address!r}, workers=1)))
    """
    folder = str(tmp_path)
    texts = {
        name: text.format(folder=folder, name=name, other=other, address=head.address)
        for name, other in (("a", "b"), ("b", "a"))
    }
    with (
        scripts.started(tmp_path, texts["a"], TOKEN_VARIABLES, "a") as one,
        scripts.started(tmp_path, texts["b"], TOKEN_VARIABLES, "b") as two,
    ):
        for script in (one, two):
            ended = script.end(60)
            assert ended.status == 0, ended.err
            assert ended.out.splitlines()[-1] == str([x * x for x in range(10)])


def test_the_doctor_shows_seats_and_versions(head: Head, tmp_path: Path) -> None:
    address = f"ray://{head.host}:{head.port}"
    text = scripts.doctor(tmp_path, address, TOKEN_VARIABLES)
    assert f"engine {address}: 1 node, 2 tasks of one core at once" in text
    here, rows = facts.look(), [line.split() for line in text.splitlines()]
    (node,) = [row for row in rows if "(this" in row]
    assert node[2:6] == ["(this", "machine)", "2", "2"]
    assert node[-2:] == ["as", "here"]
    assert ["installed", "here", node[0]] in rows
    assert ["Python", here.python, here.python] in rows
    for package in ("tenfold", "numpy", "torch", "keras"):
        assert [package, here.versions[package], here.versions[package]] in rows


_REFUSED = """
    import time
    import ray, grpc, tenfold

    for address in {addresses!r}:
        began = time.monotonic()
        try:
            tenfold.map(abs, [1], engine=address)
        except BaseException as error:
            print(type(error).__name__, str(error).replace(chr(10), " "))
        print(time.monotonic() - began)
"""


def _refused(folder: Path, variables: dict[str, str], *addresses: str) -> list[str]:
    """What a call to each of them says, one after the other; it says it soon."""
    lines = scripts.run(folder, _REFUSED.format(addresses=addresses), variables).out.splitlines()[-2 * len(addresses) :]
    assert all(float(seconds) < LIMIT for seconds in lines[1::2]), lines
    return lines[::2]


def test_a_wrong_token(head: Head, tmp_path: Path) -> None:
    variables = {**TOKEN_VARIABLES, "RAY_AUTH_TOKEN": "b" * 32, "RAY_ADDRESS": f"127.0.0.1:{head.port}"}
    texts = _refused(tmp_path, variables, head.address, f"ray://127.0.0.1:{head.port}", "ray://auto")
    assert len(texts) == 3
    for text in texts:
        assert text.startswith("ClusterLost")
        assert "token" in text


def test_a_token_from_a_file(head: Head, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(ray_clusters.TOKEN)
    variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")}
    text = f"import tenfold; print(tenfold.map(abs, [-1], engine='ray://127.0.0.1:{head.port}')[:])"
    assert scripts.run(tmp_path, text, variables).out.splitlines()[-1] == "[1]"


@pytest.mark.parametrize(
    "variables",
    [{"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "/nonexistent"}],
    ids=["disabled", "missing"],
)
def test_no_token(variables: dict[str, str], head: Head, tmp_path: Path) -> None:
    (text,) = _refused(tmp_path, variables, head.address)
    assert text.startswith("ClusterLost")
    assert "token" in text.lower()


# -- modules and versions ---------------------------------------------------------------------------------------------

_MODULES = """
    import tenfold
    import beside
    from package.inner import Item

    def work(item):
        import later

        return beside.Result(item.value * later.FACTOR), beside.__file__, later.__file__, type(item).__module__

    for found, *files, home in tenfold.map(work, [Item(n) for n in range(4)], engine={address!r}):
        assert isinstance(found, beside.Result), found
        assert all("tenfold-own-" in file for file in files), files
        assert home == "package.inner"
    print(sum(found.value for found, *_ in tenfold.map(work, [Item(n) for n in range(4)], engine={address!r})))
"""


def test_own_modules_travel(head: Head, tmp_path: Path) -> None:
    script = tmp_path / "script"
    (script / "package").mkdir(parents=True)
    (script / "beside.py").write_text("class Result:\n    def __init__(self, value):\n        self.value = value\n")
    (script / "later.py").write_text("FACTOR = 10\n")
    (script / "package" / "__init__.py").touch()
    (script / "package" / "inner.py").write_text(
        "class Item:\n    def __init__(self, value):\n        self.value = value\n"
    )
    ended = scripts.run(script, _MODULES.format(address=head.address), TOKEN_VARIABLES)
    assert ended.out.splitlines()[-1] == "60"


def test_another_version_on_a_node_is_named_before_any_task(head: Head, tmp_path: Path) -> None:
    """Joined by the port of the GCS: Ray Client's own server may fail to start on a busy machine."""
    facts = tmp_path / "shim" / "cloudpickle-0.1.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: cloudpickle\nVersion: 0.1\n")
    text = f"""
        import pathlib, time
        import ray, tenfold

        ray.init('{head.host}:{head.port}', log_to_driver=False)
        deadline = time.monotonic() + 30
        while sum(node["Alive"] for node in ray.nodes()) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        try:
            tenfold.map(lambda x: pathlib.Path({str(tmp_path)!r}, "ran").touch(), range(4), engine=ray)
        except tenfold.errors.WorkersUnavailable as error:
            print(str(error).replace(chr(10), " "))
    """
    with ray_clusters.worker(tmp_path, head.port, {"PYTHONPATH": str(tmp_path / "shim")}):
        ended = scripts.run(tmp_path, text, TOKEN_VARIABLES)
    assert "cloudpickle 0.1 there" in ended.out, ended.err
    assert not (tmp_path / "ran").exists()


# -- no cluster -------------------------------------------------------------------------------------------------------


def _timed(address: str, error: type[Exception]) -> str:
    began = time.monotonic()
    with pytest.raises(error) as caught:
        tenfold.map(abs, [1], engine=address)
    assert time.monotonic() - began < LIMIT
    return str(caught.value)


def test_nobody_there() -> None:
    assert "ray://127.0.0.1:1" in _timed("ray://127.0.0.1:1", errors.ClusterLost)


@pytest.mark.parametrize(
    "address",
    ["ray://", "ray://somewhere", "ray://:10001", "ray://host:port", "ray://127.0.0.1:99999", "ray://127.0.0.1:-1"],
)
def test_what_is_no_address(address: str) -> None:
    assert repr(address) in _timed(address, errors.BadCall)


def test_no_cluster_on_this_machine_and_somebody_else_who_never_answers(tmp_path: Path) -> None:
    """Others may run one here, which Ray would find: RAY_ADDRESS says that it is elsewhere, where there is none."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        addresses = "ray://auto", f"ray://127.0.0.1:{listener.getsockname()[1]}"
        texts = _refused(tmp_path, {"RAY_ADDRESS": "127.0.0.1:1"}, *addresses)
    for text, address in zip(texts, addresses, strict=True):
        assert text.startswith("ClusterLost")
        assert address in text


_GOES_ON = """
    import pathlib, time
    import tenfold
    from tenfold.engines.cluster import ray_joining

    folder = pathlib.Path({folder!r})
    ray_joining.HEAD_LIMIT = 2.0  # instead of 10

    def work(x):
        (folder / f"began {{x}}").touch()
        if x >= 6 and not (folder / "go").exists():
            time.sleep(300)
        with open(folder / f"ended {{x}}", "a") as file:
            file.write("1\\n")
        return x * 10 + round(tenfold.here().rng.random(), 6)

    try:
        print(list(tenfold.map(work, range(10), workers=1, run={run!r}, engine={engine!r})))
    except tenfold.errors.ClusterLost as error:
        print("ClusterLost", error)
"""


def _goes_on(folder: Path, engine: str) -> str:
    return _GOES_ON.format(folder=str(folder), run=str(folder / "run"), engine=engine)


def _until_six_are_committed(folder: Path, script: scripts.Script) -> None:
    waiting.until(lambda: len(committed(folder / "run")) == 6 or script.process.poll() is not None, 120)
    waiting.until(lambda: len(list(folder.glob("began *"))) == 7 or script.process.poll() is not None, 120)
    assert script.process.poll() is None, script.err


def _is_finished_by(folder: Path, engine: str) -> None:
    """The same call, somewhere else or again: it does the rest, and nothing else."""
    assert traces(folder) == {x: [1] for x in range(6)}
    (folder / "go").touch()
    again = scripts.run(folder, _goes_on(folder, engine), TOKEN_VARIABLES)
    assert traces(folder) == {x: [1] for x in range(10)}
    (folder / "serial").mkdir()
    (folder / "serial" / "go").touch()
    assert again.out.splitlines()[-1] == scripts.run(folder, _goes_on(folder / "serial", "serial")).out.splitlines()[-1]


def test_a_killed_caller_of_a_joined_cluster(head: Head, tmp_path: Path) -> None:
    """Its tasks end, the cluster stays, and the call goes on in it."""
    address = f"ray://{head.host}:{head.port}"
    with scripts.started(tmp_path, _goes_on(tmp_path, address), TOKEN_VARIABLES) as script:
        _until_six_are_committed(tmp_path, script)
        tasks = set(scripts.descendants(script.pid))
        script.kill()
    waiting.until(lambda: not any(map(waiting.lives, tasks)), 10, "the end of the dead caller's tasks")
    _is_finished_by(tmp_path, address)


@pytest.mark.slow
def test_a_head_that_is_killed_during_calls(head: Head, tmp_path: Path) -> None:
    """Callers get an error, and are not ended by Ray; another cluster finishes what this one has begun."""
    ways = [tmp_path / "client", tmp_path / "gcs"]
    with ray_clusters.head(tmp_path) as lost, contextlib.ExitStack() as stack:
        running = []
        for way, address in zip(ways, (lost.address, f"ray://{lost.host}:{lost.port}"), strict=True):
            way.mkdir()
            running.append(stack.enter_context(scripts.started(way, _goes_on(way, address), TOKEN_VARIABLES)))
        for way, script in zip(ways, running, strict=True):
            _until_six_are_committed(way, script)
        ray_clusters.end(lost.process)
        for script in running:
            ended = script.end(40)
            assert ended.out.startswith("ClusterLost"), ended.err
            assert ended.status == 0
    for way in ways:
        _is_finished_by(way, f"ray://{head.host}:{head.port}")
