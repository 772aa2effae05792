"""Runs the tests of other projects in a pytest of its own, with tenfold's backend in the place of loky.

What became of each test is written to a file, so that whoever asked can compare it with a list of exceptions.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import leftovers

LIMIT = 280.0  # seconds for one run

PLUGIN = '''
"""Loaded by the pytest that runs a suite: makes the backend the default one, and writes what became of each test."""

import contextlib
import json
import os

import joblib
import pytest
from joblib import parallel

import tenfold.joblib

joblib.register_parallel_backend("tenfold", tenfold.joblib.TenfoldBackend, make_default=True)
parallel.DEFAULT_PROCESS_BACKEND = "tenfold"
del parallel.BACKENDS["loky"]

JOBS = int(os.environ["SUITE_JOBS"])
OURS = ("tenfold", "back_compat_backend", None)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    name = os.environ.pop("PYTEST_CURRENT_TEST")  # workers are kept for calls with the same environment only
    try:
        with joblib.parallel_config(backend="tenfold", n_jobs=JOBS) if JOBS else contextlib.nullcontext():
            return (yield)
    finally:
        os.environ["PYTEST_CURRENT_TEST"] = name


def pytest_collection_modifyitems(config, items):
    wanted = [item for item in items if is_about_us(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in wanted])
    items[:] = wanted


def is_about_us(item):
    """Not where every backend that a test is given is another one: nothing of ours would run."""
    given = getattr(getattr(item, "callspec", None), "params", {})
    backends = [value for name, value in given.items() if "backend" in name and name != "backend_n_jobs"]
    ours = [value for value in backends if value in OURS or isinstance(value, tenfold.joblib.TenfoldBackend)]
    return bool(ours) or not backends


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        name = report.nodeid.rpartition("::")[2]
        text = str(report.longrepr)[-3000:] if report.outcome == "failed" else ""
        with open(os.environ["SUITE_OUTCOMES"], "a") as file:
            file.write(json.dumps([name, report.outcome, text]) + "\\n")
'''

KEPT = '''
"""In the place of loky's function of this name: the workers that are kept for the next call."""

import tenfold.joblib
from tenfold.joblib import pools


class Kept:
    def __init__(self):
        self.pools = list(pools._kept)

    def __eq__(self, other):
        return self.pools == other.pools

    def shutdown(self):
        tenfold.joblib.shutdown()


def get_reusable_executor(reuse):
    return Kept()
'''

IN_OUR_WORDS = [
    ('"loky"', '"tenfold"'),
    (r"\(\s*LokyBackend,", "("),
    (r"^from joblib\._parallel_backends import", r"from tenfold.joblib import TenfoldBackend\n\g<0>"),
    (r"(joblib\._parallel_backends\.)?LokyBackend", "TenfoldBackend"),
    (r"^from joblib import Parallel, delayed", r"import tenfold.joblib\n\g<0>"),  # the scripts that it starts
    (r"^(\s+)from joblib\.externals\.loky import get_", r"\1from kept import get_"),
    # It only asks whether there is one; the import would take each worker half a second.
    (r"^(\s+)import distributed$", r'\1distributed = __import__("importlib.util").util.find_spec("distributed")'),
    # OTHERWISE in test_joblib_own_suite says why.
    (r'\("tenfold", True\),\n(\s+)\("threading", False\)', r'("tenfold", False),\n\1("threading", False)'),
]
"""What is replaced in joblib's own tests, one after the other."""


def joblib_tests(folder: Path) -> Path:
    """joblib's `test_parallel.py` about tenfold instead of loky."""
    import joblib.test

    text = (Path(joblib.test.__file__).parent / "test_parallel.py").read_text()
    for theirs, ours in IN_OUR_WORDS:
        text, count = re.subn(theirs, ours, text, flags=re.MULTILINE)
        assert count, f"joblib's tests have changed: there is no {theirs} any more"
    path = folder / "test_parallel_of_joblib.py"
    path.write_text(text)
    (folder / "kept.py").write_text(KEPT)
    return path


def run(folder: Path, words: Sequence[str], *, jobs: int = 0) -> dict[str, tuple[str, str]]:
    """What became of each test, and why. With `jobs`, whatever asks for no number of jobs has as many."""
    (folder / "suite_plugin.py").write_text(PLUGIN)
    outcomes = folder / "outcomes"
    path = os.pathsep.join([str(folder), *sys.path])
    settings = {"PYTHONPATH": path, "SUITE_JOBS": str(jobs), "SUITE_OUTCOMES": str(outcomes)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "suite_plugin", "-p", "no:cacheprovider", "--timeout", "120"]
    variables = {name: value for name, value in leftovers.variables().items() if name != "PYTHONDONTWRITEBYTECODE"}
    ended = subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", str(folder), *words],
        cwd=folder,
        env={**variables, **settings},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert ended.returncode in (0, 1), f"{ended.stdout[-5000:]}\n{ended.stderr[-5000:]}"
    found = [json.loads(line) for line in outcomes.read_text().splitlines()]
    return {name: (outcome, text) for name, outcome, text in found}


def compare(
    found: dict[str, tuple[str, str]], exceptions: dict[str, str], chances: dict[str, str] | None = None
) -> list[str]:
    """What is not as expected: a test that failed and is no exception, an exception that passed.

    What becomes of `chances` depends on which of several calls is faster.
    """
    failed = {name: text for name, (outcome, text) in found.items() if outcome == "failed"}
    listed = {**exceptions, **(chances or {})}
    excused = {name for name in found if name in listed or name.partition("[")[0] in listed}
    faults = [f"{name} failed:\n{text}" for name, text in failed.items() if name not in excused]
    idle = [name for name in exceptions if not any(name in (one, one.partition("[")[0]) for one in failed)]
    return faults + [f"{name} is listed as an exception, and does not fail" for name in idle]
