"""How workers of the joblib backend start: forked with everything imported, or spawned where that is asked for."""

from __future__ import annotations

from pathlib import Path

import scripts

LOOK = """
    import os, sys
    import tenfold.joblib
    from tenfold.nursery import client
    {imports}
    from joblib import Parallel, delayed

    def look():
        return os.getppid(), "sklearn.svm" in sys.modules, "sklearn.cluster" in sys.modules

    is_there = client._current is not None
    found = Parallel(n_jobs=2, backend="tenfold")([delayed(look)(), delayed(look)()])
    nursery = client._current._process.pid if client._current else None
    print(is_there, *[(parent == nursery, *imported) for parent, *imported in found])
"""


def test_workers_are_forked_with_what_the_caller_has_imported(tmp_path: Path) -> None:
    ended = scripts.run(tmp_path, LOOK.format(imports="import sklearn.svm"))
    assert ended.out.strip() == "True (True, True, False) (True, True, False)"
    assert ended.err == ""


def test_what_was_imported_before_it_counts_too(tmp_path: Path) -> None:
    ended = scripts.run(tmp_path, "\n    import sklearn.svm" + LOOK.format(imports=""))
    assert ended.out.strip() == "True (True, True, False) (True, True, False)"


def test_nothing_starts_ahead_where_that_is_switched_off(tmp_path: Path) -> None:
    ended = scripts.run(tmp_path, LOOK.format(imports=""), {"TENFOLD_NOTICE": "0"})
    assert ended.out.strip() == "False (True, False, False) (True, False, False)"


def test_spawned_workers_do_the_same(tmp_path: Path) -> None:
    text = """
        import os, signal
        import numpy
        import tenfold.joblib
        from joblib import Parallel, delayed

        def work(array, n):
            if n == 2 and not os.path.exists("died"):
                open("died", "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            return int(array.sum()) * n

        array = numpy.ones(300_000)
        print(Parallel(n_jobs=2, backend="tenfold")(delayed(work)(array, n) for n in range(4)))
    """
    ended = scripts.run(tmp_path, text, {"TENFOLD_START": "spawn"})
    assert ended.out.strip() == "[0, 300000, 600000, 900000]"
