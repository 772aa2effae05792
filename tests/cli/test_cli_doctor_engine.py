"""`tenfold doctor --engine`: a real cluster, engines without nodes, and clusters as one would not like to have them."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import calls
import pytest
from calls import Run

from tenfold import engines, machine
from tenfold.cli import clusters
from tenfold.engines.cluster import Clustered, Node, facts
from tenfold.engines.dask import DaskEngine
from tenfold.engines.ray import RayEngine
from tenfold.machine import Gpu, Machine


def test_a_dask_cluster(tmp_path: Path) -> None:
    """A real one, in a process of its own."""
    ended = calls.tenfold(tmp_path, "doctor", "--engine", "dask", "--json")
    assert ended.status == 0, ended.err
    found = ended.json
    assert found["engine"] == "dask"
    assert found["address"].startswith("tcp://127.0.0.1:")
    (node,) = found["nodes"]
    assert node["host"] == socket.gethostname()
    assert node["is_this_machine"]
    assert node["cpus"] == node["seats"] == int(machine.look().cpus)
    assert node["differences"] == []
    assert node["error"] == ""
    assert 0 < node["round_trip"] < 5
    assert node["bandwidth"] > 1e5


@pytest.mark.parametrize("engine", ["local", "serial"])
def test_an_engine_without_nodes_shows_this_machine(run: Run, engine: str) -> None:
    result = run("doctor", "--engine", engine)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"engine {engine}: 1 machine, ")
    machine = engines.find(engine).machines()[0]
    seats, cores, *_ = result.stdout.splitlines()[-2].split()
    assert (seats, cores) == (str(int(machine.cpus) if engine == "local" else 1), f"{machine.cpus:g}")


def test_machines_as_json(tmp_path: Path) -> None:
    ended = calls.tenfold(tmp_path, "doctor", "--engine", "local", "--json", variables={"TENFOLD_GPUS": "2"})
    (found,) = ended.json["machines"]
    assert [gpu["address"] for gpu in found["gpus"]] == ["0", "1"]
    assert found["seats"] == int(machine.look().cpus)


@pytest.mark.parametrize("scheme", ["dask", "tcp"])
def test_nobody_answers(run: Run, scheme: str) -> None:
    with socket.socket() as closed:  # bound and not listening: nobody else can have this port
        closed.bind(("127.0.0.1", 0))
        address = f"{scheme}://127.0.0.1:{closed.getsockname()[1]}"
        result = run("doctor", "--engine", address)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert f"error: no Dask scheduler answers at {address}: " in result.stderr


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("daks", "there is no such engine; there are dask, "),
        ("dask://host", 'expected "dask", or an address such as "dask://host:8786"'),
    ],
)
def test_what_is_no_address_is_refused(run: Run, address: str, told: str) -> None:
    result = run("doctor", "--engine", address)
    assert result.exit_code == 2
    assert told in result.stderr


# -- nodes that are not as they should be -----------------------------------------------------------------------


class Invented:
    """An engine with two nodes: one is older than we are, the other leaves while it is looked at."""

    address = "invented://host"

    def __init__(self) -> None:
        here = facts.look()
        older = replace(here, host="another", hostname="older", versions={**here.versions, "numpy": "1.0"})
        large = Machine((), 8.0, 64 * 10**9, (Gpu("0", "declared", 0), Gpu("1", "declared", 0, 0.5)), "a")
        self._nodes = [Node("a", large, older), Node("b", Machine((), 0.5, 10**9, (), "b"), here)]

    def machines(self) -> list[Machine]:
        return [node.machine for node in self._nodes]

    def cluster(self) -> Invented:
        return self

    def nodes(self) -> list[Node]:
        return self._nodes

    def echo(self, name: str, data: bytes) -> bytes:
        if name == "b":
            raise ConnectionError("it has left")
        return data


@pytest.fixture
def invented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "find", lambda address: Invented())


@pytest.mark.usefixtures("invented")
def test_differences_and_losses_are_told() -> None:
    told: list[str] = []
    a, b = clusters.look("invented", told.append)["nodes"]
    here = facts.look().versions["numpy"]
    assert a["differences"] == [f"numpy 1.0 there, {here} here"]
    assert (a["is_this_machine"], a["seats"], a["error"]) == (False, 8, "")
    assert b["error"] == "ConnectionError: it has left"
    assert (b["round_trip"], b["bandwidth"], b["seats"]) == (None, None, 0)
    assert told == ["looking for invented", "timing the way to a", "timing the way to b"]


@pytest.mark.usefixtures("invented")
def test_the_table_of_nodes(run: Run) -> None:
    result = run("doctor", "--engine", "invented")
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines() if line.strip()]
    assert " ".join(lines[0]) == "engine invented (invented://host): 2 nodes, 8 tasks of one core at once"
    assert lines[3][:7] == ["a", "older", "8", "8", "64.0", "GB", "1.5"]
    assert "numpy 1.0 there" in " ".join(lines[3])
    assert "ConnectionError: it has left as here" in " ".join(lines[4])
    here = facts.look()
    installed = lines[lines.index(["installed", "here", "a", "b"]) :]
    assert ["Python", here.python, here.python, here.python] in installed
    assert ["numpy", here.versions["numpy"], "1.0", here.versions["numpy"]] in installed
    assert ["torch", *[here.versions["torch"]] * 3] in installed


def test_who_has_nodes() -> None:
    # By class: the import of Ray writes to os.environ.
    assert issubclass(DaskEngine, Clustered)
    assert issubclass(RayEngine, Clustered)
    assert not isinstance(engines.find("local"), Clustered)
