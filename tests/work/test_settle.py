"""A seat is settled by variables, by the affinity mask and by calls; what is borrowed is given back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import scripts
from tenfold.frameworks.numpy import THREAD_VARIABLES
from tenfold.machine import SEAT_VARIABLE
from tenfold.plan.seats import GpuShare, Seat
from tenfold.work import settle

QUIET = {"TENFOLD_NOTICE": "0"}
CORE = max(os.sched_getaffinity(0))

# -- variables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cpus", "threads"), [(1, "1"), (0.25, "1"), (6, "6")])
def test_thread_variables(cpus: float, threads: str) -> None:
    found = settle.variables(Seat(0, cpus, ()), {})
    assert {found[name] for name in THREAD_VARIABLES} == {threads}
    assert found["TF_NUM_INTRAOP_THREADS"] == threads
    assert int(found["TF_NUM_INTEROP_THREADS"]) >= 2


def test_without_a_gpu_every_gpu_is_hidden() -> None:
    found = settle.variables(Seat(0, 1, ()), {"CUDA_VISIBLE_DEVICES": "0,1"})
    assert found["CUDA_VISIBLE_DEVICES"] == found["HIP_VISIBLE_DEVICES"] == "-1"
    assert "ZE_AFFINITY_MASK" not in found


def test_a_task_sees_its_own_gpus() -> None:
    seat = Seat(0, 1, (), (GpuShare("2", 1.0), GpuShare("0", 1.0)))
    found = settle.variables(seat, {})
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"):
        assert found[name] == "2,0"
    assert not any("FRACTION" in name or "ALLOC_CONF" in name or "LIMIT" in name for name in found)
    assert "TF_FORCE_GPU_ALLOW_GROWTH" not in found


def test_a_part_of_a_gpu_is_a_part_of_its_memory() -> None:
    found = settle.variables(Seat(0, 1, (), (GpuShare("1", 0.25),)), {})
    assert found["CUDA_VISIBLE_DEVICES"] == "1"
    assert found["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert float(found["XLA_PYTHON_CLIENT_MEM_FRACTION"]) == pytest.approx(0.75 * 0.25, abs=1e-3)
    assert found["CUPY_GPU_MEMORY_LIMIT"] == "25%"
    assert found["PYTORCH_CUDA_ALLOC_CONF"].endswith(":0.250")


def test_gpus_are_counted_as_nvml_counts_them_unless_the_user_chose() -> None:
    seat = Seat(0, 1, (), (GpuShare("1", 1.0),))
    assert settle.variables(seat, {})["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert "CUDA_DEVICE_ORDER" not in settle.variables(seat, {"CUDA_VISIBLE_DEVICES": "1,0"})


def test_a_nested_call_finds_the_seat() -> None:
    seat = Seat(3, 2, (), (GpuShare("1", 0.5),), 1000)
    assert json.loads(settle.variables(seat, {})[SEAT_VARIABLE]) == {"cpus": 2, "memory": 1000, "gpus": {"1": 0.5}}


def test_variables_change_nothing() -> None:
    before = dict(os.environ)
    given = {"A": "1"}
    found = settle.variables(Seat(0, 1, ()), given)
    assert dict(os.environ) == before
    assert given == {"A": "1"}
    assert all(isinstance(name, str) and isinstance(value, str) for name, value in found.items())


# -- settle, for a worker's whole life --------------------------------------------------------------------------------


def told(tmp_path: Path, text: str, variables: dict[str, str] | None = None) -> dict[str, Any]:
    ended = scripts.run(tmp_path, text, QUIET | (variables or {}))
    found: dict[str, Any] = json.loads(ended.out.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A process with PyTorch, before, within and after a seat that it borrows, lends, and at last takes for good."""
    return told(
        tmp_path_factory.mktemp("states"),
        f"""
        import contextlib, json, os
        import numpy, torch, threadpoolctl
        from tenfold.plan.seats import Seat
        from tenfold.work.settle import borrowed, lent, settle

        torch.set_num_threads(2)
        threadpoolctl.threadpool_limits(limits=2)

        def state():
            pools = sorted((pool["filepath"], pool["num_threads"]) for pool in threadpoolctl.threadpool_info())
            cores = sorted(os.sched_getaffinity(0))
            return {{"environment": dict(os.environ), "cores": cores, "torch": torch.get_num_threads(), "pools": pools}}

        seat = Seat(0, 1, ({CORE},))
        states = {{"before": state()}}
        with borrowed(seat):
            states["borrowed"] = state()
        states["after borrowing"] = state()
        with contextlib.suppress(ZeroDivisionError), borrowed(seat):
            1 / 0
        states["after an error"] = state()
        with lent(seat, dict(os.environ)):
            states["lent"] = state()
            del os.environ["OMP_NUM_THREADS"]
        states["after lending"] = state()

        environment = {{"PATH": os.environ["PATH"], "CALLER": "yes"}}
        os.environ["NURSERY_ONLY"] = "1"
        settle(seat, environment)
        states["settled"] = state()
        states["given"] = environment
        print(json.dumps(states))
        """,
        {"OMP_NUM_THREADS": "2"},
    )


def test_a_worker_takes_its_seat(states: dict[str, Any]) -> None:
    found = states["settled"]
    assert found["environment"]["CALLER"] == "yes"
    assert "NURSERY_ONLY" not in found["environment"]  # the caller's environment, not the nursery's
    assert found["environment"]["OMP_NUM_THREADS"] == "1"
    assert found["environment"]["CUDA_VISIBLE_DEVICES"] == "-1"
    assert states["given"].keys() == {"PATH", "CALLER"}
    assert found["cores"] == [CORE]
    assert found["torch"] == 1
    assert found["pools"]
    assert {number for _, number in found["pools"]} == {1}


def test_without_cores_nothing_is_pinned_and_a_lost_core_is_no_trouble(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        import json, os
        from tenfold.plan.seats import Seat
        from tenfold.work.settle import settle
        before = sorted(os.sched_getaffinity(0))
        settle(Seat(0, 1, ()), os.environ.copy())
        unpinned = sorted(os.sched_getaffinity(0))
        settle(Seat(0, 1, (1000,)), os.environ.copy())
        print(json.dumps([before, unpinned, sorted(os.sched_getaffinity(0))]))
        """,
    )
    assert found[0] == found[1] == found[2]


def test_threads_that_were_loaded_right_are_left_alone(tmp_path: Path) -> None:
    """A worker that was forked with one thread needs no call to keep to one: the call costs milliseconds."""
    found = told(
        tmp_path,
        """
        import json, os, sys
        import numpy
        from tenfold.plan.seats import Seat
        from tenfold.work.settle import settle
        settle(Seat(0, 1, ()), os.environ.copy(), loaded_threads=1)
        alone = "threadpoolctl" in sys.modules
        settle(Seat(0, 2, ()), os.environ.copy(), loaded_threads=1)
        print(json.dumps([alone, "threadpoolctl" in sys.modules]))
        """,
    )
    assert found == [False, True]


# -- borrowed and lent: for a while -----------------------------------------------------------------------------------


def test_what_is_borrowed_is_given_back(states: dict[str, Any]) -> None:
    before, borrowed = states["before"], states["borrowed"]
    assert borrowed["environment"] == before["environment"]  # threads only: the process is the caller's
    assert borrowed["cores"] == before["cores"]
    assert borrowed["torch"] == 1
    assert {number for _, number in borrowed["pools"]} == {1}
    assert states["after borrowing"] == states["after an error"] == before


def test_what_is_lent_is_given_back(states: dict[str, Any]) -> None:
    lent = states["lent"]
    assert lent["environment"]["OMP_NUM_THREADS"] == "1"
    assert lent["environment"]["CUDA_VISIBLE_DEVICES"] == "-1"
    assert lent["cores"] == [CORE]
    assert lent["torch"] == 1
    assert states["after lending"] == states["before"]


def test_a_task_that_removes_a_variable_does_not_hurt_its_host(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        import json, os
        from tenfold.plan.seats import Seat
        from tenfold.work.settle import lent
        before = dict(os.environ)
        with lent(Seat(0, 1, ()), dict(os.environ)):
            os.environ.pop("CUDA_VISIBLE_DEVICES", None)
            os.environ.pop("TENFOLD_SEAT", None)
        print(json.dumps(dict(os.environ) == before))
        """,
    )
    assert found is True
