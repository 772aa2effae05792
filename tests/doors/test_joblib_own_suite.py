"""joblib's own tests of `Parallel`, with tenfold's backend as the default one and in the place of loky."""

from __future__ import annotations

from pathlib import Path

import suites

EXCEPTIONS = {
    "test_parallel_with_interactively_defined_bound_method_loky": (
        'looks for the name of loky\'s process class, "LokyProcess", in the log of multiprocessing'
    ),
}

MANY = "unpicklable_functions_in_args"
"""Three kinds of functions in three places, a script for each combination: a quarter of the time of all tests."""
WANTED = f"not {MANY} or delayed-square or ([args-def and not gen_square) or (kwargs-def and gen_square)"
"""Each kind once, and each place once: a lambda that is delayed, a function among args, a closure among kwargs."""


def test_joblibs_own_tests_pass(tmp_path: Path) -> None:
    found = suites.run(tmp_path, [str(suites.joblib_tests(tmp_path)), "-k", WANTED])
    assert len([name for name in found if MANY in name]) == 3
    assert len([name for name, (outcome, _) in found.items() if outcome == "passed"]) > 250
    faults = suites.compare(found, EXCEPTIONS)
    assert not faults, "\n\n".join(faults)
