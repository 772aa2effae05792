"""A test leaves nothing behind: checked after each one. The session has a temporary folder of its own for that."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from typing import Any

import cloudpickle
import pytest

import leftovers
import waiting

WITH_RAY = (
    "tests/engines/",
    "tests/clusters/test_ray",
    "tests/docs/",
    "tests/cli/test_cli_doctor_engine.py",
    "tests/faults/test_interrupts.py",
    "tests/faults/test_parent_killed.py",
)
GRACE = 15.0  # seconds in which processes that were told to go may go; on a busy machine, loky's need several

_FAILED = pytest.StashKey[bool]()
_FOLDER = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    for number in (signal.SIGINT, signal.SIGHUP):  # in the background of a shell, or under nohup, they are ignored
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)
    os.environ.pop("COLUMNS", None)  # sessions side by side have it; what is asserted is as wide as it is without
    os.environ[leftovers.MARK] = f"{os.getpid()}-{os.urandom(4).hex()}"
    # Other sessions use /tmp at the same time, and pytest clears away what they have in pytest-of-...: all is in here.
    config.stash[_FOLDER] = tempfile.mkdtemp(prefix="t-")  # short: a socket below it has 107 characters
    os.environ["TMPDIR"] = tempfile.tempdir = config.stash[_FOLDER]
    os.environ["XDG_RUNTIME_DIR"] = f"{config.stash[_FOLDER]}/run"  # nurseries that processes share
    os.mkdir(os.environ["XDG_RUNTIME_DIR"], 0o700)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _FOLDER in config.stash:
        shutil.rmtree(config.stash[_FOLDER], ignore_errors=True)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Sessions side by side share the work by files; but two clusters of Ray on one machine disturb each other."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return "ray" if path.startswith(WITH_RAY) else path

    return Scheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report


@pytest.fixture(autouse=True)
def nothing_is_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    before = leftovers.Before()
    yield
    # The traceback of a failed test keeps its variables, and so its open files.
    passed = not request.node.stash.get(_FAILED, True)
    found: list[str] = []

    def gone() -> bool:
        found[:] = before.faults(with_descriptors=passed)
        return not found

    try:
        waiting.until(gone, GRACE)
    except AssertionError:
        before.clear()
        pytest.fail("left behind:\n" + "\n".join(found), pytrace=False)


@pytest.fixture(scope="module")
def travels_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Functions of the file, as those of a script: else each worker imports pytest and all that the file tests."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """PyTorch here as a worker has it: two threads of a busy machine wait ten times as long as they calculate."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
