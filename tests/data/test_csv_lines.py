"""The lines of CSV files: found wherever quotes, empty lines and blocks end, and read as Python's csv does."""

from __future__ import annotations

import csv
import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenfold.data.csv import CsvFile
from tenfold.data.lines import index
from tenfold.data.opening import source


@pytest.fixture(scope="module", autouse=True)
def threads_that_stay(tmp_path_factory: pytest.TempPathFactory) -> None:
    """pyarrow starts its own once."""
    path = tmp_path_factory.mktemp("threads") / "x.csv"
    path.write_text("a\n1\n")
    source(path).read(0, 1)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a\n1\n2\n", [1, 2]),
        ("a\n1\n2", [1, 2]),
        ("a\r\n1\r\n\r\n\r\n2\r\n", [1, 2]),
        ("a\r1\r2\r", [1, 2]),
        ("\n\na\n\n1\n\n\n2\n\n", [1, 2]),
        ("\ufeffa\n1\n2\n", [1, 2]),
        ('"a"\n"x\ny"\n"x""\n"\n', ["x\ny", 'x"\n']),
        ('a\n""\n"z"\n', ["", "z"]),
        ("a\nNA\n2\n", [float("nan"), 2]),
    ],
)
def test_lines(text: str, values: list[Any], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(text.encode())
    whole = source(tmp_path / "t.csv")
    assert whole.length == len(values)
    for number, value in enumerate(values):
        [found] = whole.read(number, number + 1)["a"].tolist()
        assert found == value or (found != found and value != value)


@pytest.mark.parametrize("block", [1, 2, 3, 5, 7, 64])
def test_blocks_may_end_anywhere(block: int, tmp_path: Path) -> None:
    records = ['1,"a\r\n""b"""', "", '2,""', "3,c", "", '4,"\n\n"', "5,"]
    (tmp_path / "t.csv").write_bytes("\r\n".join(["x,y", *records]).encode())
    rows, places = index(str(tmp_path / "t.csv"), b",", block, "t")
    data = (tmp_path / "t.csv").read_bytes()
    pieces = [data[low:high] for low, high in itertools.pairwise(places)]
    assert b"".join(pieces).strip() == data[data.index(b"1,") :]
    assert rows[-1] == 5
    for piece, lines in zip(pieces, np.diff(rows), strict=True):
        starts = [piece.count(f"{number},".encode()) for number in range(1, 6)]
        assert sum(starts) == lines


TEXTS = st.text('ab ,"\n\té;', max_size=6)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(TEXTS, min_size=1, max_size=12),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    end=st.sampled_from(["\n", "\r\n", "\n\n"]),
    block=st.integers(1, 30),
    data=st.data(),
)
def test_as_python_reads_it(
    texts: list[str], quoting: Any, end: str, block: int, data: st.DataObject, tmp_path: Path
) -> None:
    written = io.StringIO(newline="")
    writer = csv.writer(written, quoting=quoting, lineterminator=end)
    writer.writerows([("number", "text"), *[(number, f"x{text}") for number, text in enumerate(texts)]])
    (tmp_path / "t.csv").write_bytes(written.getvalue().encode())
    found = source(tmp_path / "t.csv")
    assert isinstance(found, CsvFile)
    found._edges, found._places = index(str(tmp_path / "t.csv"), b",", block, "t")
    assert found.length == len(texts)
    start = data.draw(st.integers(0, len(texts) - 1))
    stop = data.draw(st.integers(start + 1, len(texts)))
    rows = found.read(start, stop)
    assert rows["number"].tolist() == list(range(start, stop))
    assert rows["text"].tolist() == [f"x{text}" for text in texts[start:stop]]
