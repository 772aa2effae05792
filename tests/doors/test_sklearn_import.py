"""What importing `tenfold.sklearn` brings with it: nothing heavy, before it is asked for; and workers that warm up."""

from __future__ import annotations

from pathlib import Path

import scripts

_LAZY = """
    import sys
    import tenfold.sklearn
    import tenfold.sklearn.keras_form, tenfold.sklearn.torch_form, tenfold.sklearn.making, tenfold.sklearn.calls
    print(sorted({"sklearn", "keras", "torch", "tensorflow", "jax", "joblib"} & set(sys.modules)))
    try:
        tenfold.sklearn.KerasTransformer
    except AttributeError as error:
        print(error)
    print(dir(tenfold.sklearn))
"""
_WARM = """
    import sys
    from tenfold.nursery import client
    from tenfold.sklearn import GridSearch
    print(len(client._special))
    from tenfold.sklearn import KerasClassifier
    print(len(client._special), "keras" in sys.modules)
"""


def test_nothing_heavy_is_imported_before_it_is_asked_for_nor_in_workers(tmp_path: Path) -> None:
    imported, unknown, names = scripts.run(tmp_path, _LAZY).out.splitlines()
    assert imported == "[]"
    assert unknown == "module 'tenfold.sklearn' has no attribute 'KerasTransformer'"
    assert "'GridSearch'" in names


def test_who_asks_for_a_search_and_for_keras_finds_workers_that_are_warm(tmp_path: Path) -> None:
    assert scripts.run(tmp_path, _WARM).out.split() == ["0", "1", "False"]
    assert scripts.run(tmp_path, _WARM, {"TENFOLD_NOTICE": "0"}).out.split() == ["0", "0", "False"]
