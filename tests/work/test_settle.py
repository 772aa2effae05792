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


def test_a_worker_takes_its_seat(tmp_path: Path) -> None:
    core = max(os.sched_getaffinity(0))
    found = told(
        tmp_path,
        f"""
        import json, os
        import numpy, torch, threadpoolctl
        from tenfold.plan.seats import Seat
        from tenfold.work.settle import settle

        torch.set_num_threads(2)
        environment = {{"PATH": os.environ["PATH"], "CALLER": "yes"}}
        os.environ["NURSERY_ONLY"] = "1"
        settle(Seat(0, 1, ({core},)), environment)
        pools = {{pool["user_api"]: pool["num_threads"] for pool in threadpoolctl.threadpool_info()}}
        print(json.dumps({{
            "environment": dict(os.environ), "cores": sorted(os.sched_getaffinity(0)), "pools": pools,
            "torch": torch.get_num_threads(), "given": environment,
        }}))
        """,
    )
    environment = found["environment"]
    assert environment["CALLER"] == "yes"
    assert "NURSERY_ONLY" not in environment  # the caller's environment, not the nursery's
    assert environment["OMP_NUM_THREADS"] == "1"
    assert environment["CUDA_VISIBLE_DEVICES"] == "-1"
    assert found["given"].keys() == {"PATH", "CALLER"}
    assert found["cores"] == [core]
    assert found["torch"] == 1
    assert found["pools"]
    assert set(found["pools"].values()) == {1}


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


def test_what_is_borrowed_or_lent_is_given_back(tmp_path: Path) -> None:
    core = max(os.sched_getaffinity(0))
    found = told(
        tmp_path,
        f"""
        import contextlib, json, os
        import numpy, torch, threadpoolctl
        from tenfold.plan.seats import Seat
        from tenfold.work.settle import borrowed, lent

        torch.set_num_threads(2)
        threadpoolctl.threadpool_limits(limits=2)

        def state():
            pools = sorted((pool["filepath"], pool["num_threads"]) for pool in threadpoolctl.threadpool_info())
            return [dict(os.environ), sorted(os.sched_getaffinity(0)), torch.get_num_threads(), pools]

        seat = Seat(0, 1, ({core},))
        states = [state()]
        with borrowed(seat):
            states.append(state())
        states.append(state())
        with contextlib.suppress(ZeroDivisionError), borrowed(seat):
            1 / 0
        states.append(state())
        with lent(seat):
            states.append(state())
            os.environ["LEFT_BY_A_TASK"] = "1"
            del os.environ["OMP_NUM_THREADS"]
        del os.environ["LEFT_BY_A_TASK"]
        states.append(state())
        print(json.dumps(states))
        """,
        {"OMP_NUM_THREADS": "2"},
    )
    before, borrowed, after, after_error, lent, after_lending = found
    assert borrowed[:2] == before[:2]  # threads only: the process is the caller's
    assert borrowed[2] == 1
    assert {number for _, number in borrowed[3]} == {1}
    assert after == after_error == before
    assert lent[0]["OMP_NUM_THREADS"] == "1"
    assert lent[0]["CUDA_VISIBLE_DEVICES"] == "-1"
    assert lent[1] == [core]
    assert lent[2] == 1
    assert after_lending == before


def test_a_task_that_removes_a_variable_does_not_hurt_its_host(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        import json, os
        from tenfold.plan.seats import Seat
        from tenfold.work.settle import lent
        before = dict(os.environ)
        with lent(Seat(0, 1, ())):
            os.environ.pop("CUDA_VISIBLE_DEVICES", None)
            os.environ.pop("TENFOLD_SEAT", None)
        print(json.dumps(dict(os.environ) == before))
        """,
    )
    assert found is True
