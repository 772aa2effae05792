"""joblib's own tests of `Parallel`, with tenfold's backend as the default one and in the place of loky."""

from __future__ import annotations

from pathlib import Path

import suites

EXCEPTIONS = {
    "test_parallel_with_interactively_defined_bound_method_loky": (
        'looks for the name of loky\'s process class, "LokyProcess", in the log of multiprocessing'
    ),
}


def test_joblibs_own_tests_pass(tmp_path: Path) -> None:
    found = suites.run(tmp_path, [str(suites.joblib_tests(tmp_path))])
    assert len([name for name, (outcome, _) in found.items() if outcome == "passed"]) > 250
    faults = suites.compare(found, EXCEPTIONS)
    assert not faults, "\n\n".join(faults)
