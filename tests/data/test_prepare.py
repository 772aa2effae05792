"""`tenfold.prepare`: what a function may return, what fails, what is kept, and what is made again."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

import scripts
import tenfold
from tenfold.data import opening, stores

X = numpy.random.default_rng(0).random((300, 4))


def prepare(function: Callable[[Any], Any], source: Any, to: Path, **options: Any) -> tenfold.Prepared:
    return tenfold.prepare(function, source, to, progress=False, **options)


def counted(folder: Path, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Notes each call in a file, whoever makes it."""
    log = str(folder / "calls")

    def count_and_call(sample: Any) -> Any:
        with open(log, "a") as file:
            file.write("x")
        return function(sample)

    return count_and_call


def calls(folder: Path) -> int:
    path = folder / "calls"
    found = path.stat().st_size if path.exists() else 0
    path.unlink(missing_ok=True)
    return found


# -- what a function may return ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", stores.FORMATS)
@pytest.mark.parametrize(
    ("function", "names", "expected"),
    [
        (lambda row: row * 2, ["data"], [X * 2]),
        (lambda row: float(row.sum()), ["data"], [X.sum(1)]),
        (lambda row: (row.astype("float32"), int(row[0] > 0.5)), ["x", "y"], [X.astype("f4"), (X[:, 0] > 0.5) * 1]),
        (lambda row: {"a": row[:2].reshape(1, 2), "b": row[2]}, ["a", "b"], [X[:, None, :2], X[:, 2]]),
        (lambda row: row if row[0] > 0.5 else None, ["data"], [X[X[:, 0] > 0.5]]),
        (lambda row: [row, -row], ["data"], [numpy.stack([X, -X], 1).reshape(-1, 4)]),
    ],
    ids=["an array", "a number", "a tuple", "a dict", "none of some", "several"],
)
def test_rows_are_in_order_and_files_are_ordinary(
    kind: str, function: Any, names: list[str], expected: list[Any], tmp_path: Path
) -> None:
    prepared = prepare(function, X, tmp_path / "set", format=kind)
    found = prepared.numpy()
    arrays = list(found.values()) if isinstance(found, dict) else found if isinstance(found, tuple) else [found]
    assert [column.name for column in prepared.form.columns] == names
    for array, wanted in zip(arrays, expected, strict=True):
        numpy.testing.assert_array_equal(array, wanted)
    assert len(prepared) == len(expected[0])
    assert not prepared.verify()
    assert [path.name for path in (tmp_path / "set").glob(".prep*")] == []
    if kind == "npy":
        for name, wanted in zip(names, expected, strict=True):
            plain = numpy.load(tmp_path / "set" / f"{name}.npy", allow_pickle=False)
            numpy.testing.assert_array_equal(plain, wanted)


def test_a_function_of_batches_is_given_arrays_of_that_length(tmp_path: Path) -> None:
    def check(batch: numpy.ndarray) -> numpy.ndarray:
        return numpy.column_stack([batch.sum(1), numpy.full(len(batch), len(batch))])

    found = prepare(check, X[:250], tmp_path / "set", batched=True, batch=100).numpy()
    numpy.testing.assert_allclose(found[:, 0], X[:250].sum(1))
    assert list(found[:, 1]) == [100] * 200 + [50] * 50


def test_a_function_of_batches_may_leave_out_and_add(tmp_path: Path) -> None:
    def double_some(batch: numpy.ndarray) -> numpy.ndarray:
        return numpy.repeat(batch[batch[:, 0] > 0.5], 2, axis=0)

    found = prepare(double_some, X, tmp_path / "set", batched=True).numpy()
    numpy.testing.assert_array_equal(found, numpy.repeat(X[X[:, 0] > 0.5], 2, axis=0))


# -- what fails -------------------------------------------------------------------------------------------------------


def bad_at(*places: int) -> Callable[[Any], Any]:
    def fail_at(row: Any) -> Any:
        if any(numpy.array_equal(row, X[place]) for place in places):
            raise ValueError("a corrupt sample")
        return row

    return fail_at


def test_what_fails_goes_to_quarantine_and_the_others_go_on(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="2 of 300 samples failed and were left out; the first is sample 17"):
        prepared = prepare(bad_at(17, 200), X, tmp_path / "set")
    numpy.testing.assert_array_equal(prepared.numpy(), numpy.delete(X, [17, 200], axis=0))
    lines = [json.loads(line) for line in (tmp_path / "set" / "quarantine.jsonl").read_text().splitlines()]
    assert [line["sample"] for line in lines] == [17, 200] == [fault["sample"] for fault in prepared.quarantine]
    assert lines[0]["error"] == "ValueError: a corrupt sample"
    assert "fail_at" in lines[0]["traceback"]


def test_a_sample_that_would_end_the_script_is_left_out(tmp_path: Path) -> None:
    def function(number: int) -> int:
        return sys.exit("not one of ours") if number == 5 else number

    with pytest.warns(UserWarning, match="1 of 20 samples failed .* sample 5: SystemExit: not one of ours"):
        assert 5 not in prepare(function, range(20), tmp_path / "set").numpy()


def test_one_of_a_batch_that_fails_takes_none_with_it(tmp_path: Path) -> None:
    def fail(batch: numpy.ndarray) -> numpy.ndarray:
        if (batch == X[17]).all(1).any():
            raise ValueError("a corrupt sample")
        return batch

    with pytest.warns(UserWarning, match="1 of 300 samples"):
        prepared = prepare(fail, X, tmp_path / "set", batched=True, batch=50)
    numpy.testing.assert_array_equal(prepared.numpy(), numpy.delete(X, 17, axis=0))


def test_on_error_raise_names_the_sample(tmp_path: Path) -> None:
    with pytest.raises(tenfold.TasksFailed, match="sample 17: ValueError: a corrupt sample"):
        prepare(bad_at(17), X, tmp_path / "set", on_error="raise")
    assert not (tmp_path / "set" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (
            lambda row: row[: 4 if row[0] != X[40, 0] else 3],
            r"data is 3 of float64, and of the first sample 4 of float64",
        ),
        (lambda row: row.astype("f4") if row[0] != X[40, 0] else row, r"data is 4 of float64.*4 of float32"),
        (
            lambda row: (row, 1) if row[0] != X[40, 0] else row,
            r"it returned one array, and the first sample a tuple of 2",
        ),
        (lambda row: {"a": 1} if row[0] != X[40, 0] else {"b": 1}, r"a dict of b, and the first sample a dict of a"),
    ],
    ids=["shape", "dtype", "nesting", "columns"],
)
def test_a_row_of_another_form_is_named(function: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(tenfold.TasksFailed, match=f"sample 40: .*{text}"):
        prepare(function, X, tmp_path / "set", on_error="raise")
    with pytest.warns(UserWarning, match="1 of 300 samples"):
        assert len(prepare(function, X, tmp_path / "set")) == 299


@pytest.mark.parametrize(
    ("odd", "text"),
    [
        (lambda batch: batch[:, :3], "data is 3 of float64, and of the first sample 4 of float64"),
        (lambda batch: {"a": batch}, "it returned a dict of a, and the first sample one array"),
        (lambda batch: 1 / 0, "ZeroDivisionError"),
    ],
    ids=["shape", "nesting", "raised"],
)
def test_a_batch_that_is_odd_or_fails_is_named_by_its_samples(odd: Any, text: str, tmp_path: Path) -> None:
    def function(batch: Any) -> Any:
        return odd(batch) if X[62, 0] in batch[:, 0] else batch

    with pytest.raises(tenfold.TasksFailed, match=f"the batch of samples 50 to 74: .*{text}"):
        prepare(function, X, tmp_path / "set", batched=True, batch=25, on_error="raise")


def test_a_sample_that_ends_its_worker_is_left_out_alone(tmp_path: Path) -> None:
    def end_at(row: Any) -> Any:
        if row[0] in (X[17, 0], X[18, 0]):
            os._exit(3)
        return row

    source = numpy.repeat(X, 10, axis=0)  # so that parts have several samples
    source[:, 1] = numpy.arange(len(source))
    with pytest.warns(UserWarning, match="20 of 3000 samples"):
        prepared = prepare(end_at, source, tmp_path / "set")
    numpy.testing.assert_array_equal(prepared.numpy(), numpy.delete(source, range(170, 190), axis=0))
    with pytest.raises(tenfold.TasksFailed, match=r"one of the samples 160 to 175: .*ended by itself with status 3"):
        prepare(end_at, source, tmp_path / "whole", on_error="raise", workers=1)
    assert "ended by itself with status 3" in prepared.quarantine[0]["error"]
    assert len(prepare(end_at, source, tmp_path / "set")) == 2980, "the second call returns at once, without a warning"


def test_a_sample_is_left_out_whole_and_what_cannot_be_an_array_is_one(tmp_path: Path) -> None:
    def several(number: int) -> Any:
        yield number
        if number == 2:
            raise ValueError("after its first row")
        yield -number

    with pytest.warns(UserWarning, match="1 of 5 samples .* sample 2: ValueError: after its first row"):
        assert prepare(several, range(5), tmp_path / "set").numpy().tolist() == [0, 0, 1, -1, 3, -3, 4, -4]

    def ragged(number: int) -> Any:
        return number, [[1], [1, 2]] if number == 3 else [[1], [1]]

    with pytest.warns(UserWarning, match=r"1 of 5 samples .* sample 3: .*BadCall: a list that cannot be made an array"):
        assert prepare(ragged, range(5), tmp_path / "ragged").numpy()[0].tolist() == [0, 1, 2, 4]


@pytest.mark.parametrize("batched", [False, True])
def test_gaps_of_masked_arrays_are_not_lost_unseen(batched: bool, tmp_path: Path) -> None:
    def masked(rows: Any) -> Any:
        return numpy.ma.masked_array(rows, rows > 0.5)

    with pytest.raises(tenfold.TasksFailed, match="a masked array, whose gaps no file can keep"):
        prepare(masked, X, tmp_path / "made", batched=batched, on_error="raise")
    with pytest.raises(tenfold.TasksFailed, match="a masked array, whose gaps no file can keep"):
        prepare(lambda row: row, [masked(row) for row in X], tmp_path / "source", on_error="raise")


def test_what_the_function_raises_is_tried_again(tmp_path: Path) -> None:
    def flaky(number: int) -> Any:
        log = tmp_path / f"tried {number}"
        log.write_text(log.read_text() + "x" if log.exists() else "x")
        if number in (2, 3) and len(log.read_text()) < 3:
            raise OSError("the network")
        yield number

    def in_batches(numbers: Any) -> Any:
        return numpy.array([value for number in numbers for value in flaky(number)])

    options = {"engine": "serial", "batch": 2}
    for count, function in enumerate((flaky, in_batches), 1):
        to = tmp_path / f"set {count}"
        made = prepare(function, range(5), to, retries=2, batched=function is in_batches, **options)
        assert made.numpy().tolist() == list(range(5))
        for log in tmp_path.glob("tried *"):
            log.unlink()
    with pytest.warns(UserWarning, match="2 of 5 samples failed .* sample 2: OSError: the network"):
        assert prepare(flaky, range(5), tmp_path / "once", retries=1, **options).numpy().tolist() == [0, 1, 4]


@pytest.mark.parametrize("kind", ["array", "stream", "list"])
def test_what_a_function_has_written_to_before_it_failed_is_not_used(kind: str, tmp_path: Path) -> None:
    numbers = numpy.arange(1.0, 101.0)

    def halves(batch: Any) -> Any:
        for row in batch:
            row /= 2
        if any(row[0] == 3.5 for row in batch):
            raise ValueError("seven")
        return numpy.array([row[0] for row in batch])

    lengths = 1 + numpy.arange(100) % 2 if kind == "list" else numpy.ones(100, int)  # of several, none is stacked
    rows = [numpy.full(length, number) for length, number in zip(lengths, numbers, strict=True)]
    source = {"array": numbers[:, None], "stream": iter(rows), "list": rows}[kind]
    with pytest.warns(UserWarning, match="1 of 100 samples failed .* sample 6: ValueError: seven"):
        made = prepare(halves, source, tmp_path / "set", batched=True, batch=20)
    assert made.numpy().tolist() == numpy.delete(numbers / 2, 6).tolist()


@pytest.mark.parametrize("batched", [False, True])
def test_what_is_tried_again_has_not_been_written_to(batched: bool, tmp_path: Path) -> None:
    failed = counted(tmp_path, lambda rows: None)

    def halves(rows: Any) -> Any:
        rows /= 2
        if not (tmp_path / "calls").exists():
            failed(rows)
            raise OSError("the network")
        return rows

    made = prepare(halves, X[:8], tmp_path / "set", retries=1, batched=batched, engine="serial")
    numpy.testing.assert_array_equal(made.numpy(), X[:8] / 2)


@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize("kind", ["rows", "batches", "several", "one in a loop", "views", "a tuple", "tensors"])
def test_a_function_may_return_the_same_array_each_time(kind: str, retries: int, tmp_path: Path) -> None:
    room, numbers = numpy.zeros(3), numpy.arange(3000.0)
    both = (room, numpy.ones(1))

    def fill(number: Any) -> Any:
        room[:] = number
        return room

    def fill_batch(batch: Any) -> Any:
        room[: len(batch)] = batch
        return room[: len(batch)]

    def several(number: Any) -> Any:
        yield from (fill(number + place / 2) for place in range(2))

    def in_a_loop(number: Any) -> Any:
        own = numpy.zeros(3)
        for place in range(2):
            own[:] = number + place / 2
            yield own

    def fill_tensor(number: Any) -> Any:
        import torch

        return torch.from_numpy(fill(number))

    functions = {"rows": fill, "batches": fill_batch, "several": several, "views": lambda number: (fill(number)[:2], 1)}
    functions |= {"tensors": fill_tensor, "one in a loop": in_a_loop}
    functions |= {"a tuple": lambda number: fill(number) is room and both}
    options = {"batched": True, "batch": 3} if kind == "batches" else {}
    found = prepare(functions[kind], numbers, tmp_path / "set", retries=retries, **options).numpy()
    found = found[0] if kind in ("views", "a tuple") else found
    wanted = numpy.arange(6000.0) / 2 if kind in ("several", "one in a loop") else numbers
    assert (found if kind == "batches" else found[:, 0]).tolist() == wanted.tolist()


def test_none_is_left_out_of_a_set_that_is_to_be_whole(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.touch()

    def function(row: Any) -> Any:
        if row[0] == X[17, 0] and bad.exists():
            raise ValueError("a corrupt sample")
        return row

    function = counted(tmp_path, function)
    with pytest.warns(UserWarning, match="1 of 300 samples"):
        prepare(function, X, tmp_path / "set")
    with pytest.raises(tenfold.TasksFailed, match="sample 17: ValueError"):
        prepare(function, X, tmp_path / "set", on_error="raise")
    assert len(tenfold.Prepared.open(tmp_path / "set")) == 299, "it is there until another takes its place"
    bad.unlink()
    calls(tmp_path)
    assert len(prepare(function, X, tmp_path / "set")) == 299
    assert calls(tmp_path) == 0
    made = prepare(function, X, tmp_path / "set", on_error="raise")
    numpy.testing.assert_array_equal(made.numpy(), X)
    assert made.quarantine == []
    assert calls(tmp_path) < 10, "only what was left out is made, and what is with it"


def test_a_sample_of_a_stream_that_ends_its_worker_is_left_out_alone(tmp_path: Path) -> None:
    def end_at(rows: Any) -> Any:
        if rows[0, 0] == 77:
            os._exit(3)
        return rows[0, 0]

    large = (numpy.full((64, 64), number, "f4") for number in range(300))  # more than a journal keeps of an item
    with pytest.warns(UserWarning, match="1 of 300 samples failed and were left out; the first is sample 77"):
        made = prepare(end_at, large, tmp_path / "set")
    assert made.numpy().tolist() == [number for number in range(300) if number != 77]


def test_when_all_fail_there_is_no_set(tmp_path: Path) -> None:
    def fail(row: Any) -> Any:
        raise ValueError("no luck")

    with pytest.raises(tenfold.TasksFailed, match=r"(?s)none of 300 samples has become a row: 300 failed.*no luck"):
        prepare(fail, X, tmp_path / "set")
    with pytest.raises(tenfold.BadCall, match="fn returned None"):
        prepare(lambda row: None, X, tmp_path / "none")


def test_bad_calls_say_everything_at_once(tmp_path: Path) -> None:
    with pytest.raises(tenfold.BadCall) as caught:
        tenfold.prepare(3, X, "", batch=0, on_error="ignore", format="csv", seed=-1)  # type: ignore[arg-type]
    for part in ("fn=3", "to=''", "batch=0", "on_error='ignore'", "format='csv'", "seed=-1"):
        assert part in str(caught.value)

    async def later(row: Any) -> Any:
        return row

    with pytest.raises(tenfold.BadCall, match="fn=later: it is async"):
        prepare(later, X, tmp_path / "set")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "thesis.txt").write_text("mine")
    with pytest.raises(tenfold.BadCall, match=r"holds files that are not a prepared set: thesis.txt"):
        prepare(abs, X, tmp_path / "others")
    with pytest.raises(tenfold.BadCall, match="is a file"):
        prepare(abs, X, tmp_path / "others" / "thesis.txt")


def test_what_each_call_would_take_in_again_is_refused(tmp_path: Path) -> None:
    tenfold.prepare(double, X, tmp_path / "tab", format="parquet", progress=False)
    numpy.save(tmp_path / "tab" / "x.npy", X)
    (tmp_path / "tab" / "manifest.json").unlink()
    tab = str(tmp_path / "tab")
    for source, to, kind in (
        (tab, "out", "parquet"),
        (f"{tab}/**/*.npy", "a/b", "npy"),
        (f"{tab}/*/*.npy", "a", "npy"),
    ):
        with pytest.raises(tenfold.BadCall, match="each call would take in what the last one made"):
            prepare(double, source, tmp_path / "tab" / to, format=kind)
    for source, to, kind in ((tab, ".out", "parquet"), (tab, "out", "npy"), (f"{tab}/*.npy", "b", "npy")):
        made = prepare(lambda row: 1, source, tmp_path / "tab" / to, format=kind, batch=numpy.int64(100))
        assert len(made) == 300


# -- what is kept -----------------------------------------------------------------------------------------------------


def double(row: Any) -> Any:
    return row * 2


def test_the_second_call_makes_nothing_and_a_change_only_what_is_new(tmp_path: Path) -> None:
    function = counted(tmp_path, double)
    prepare(function, X, tmp_path / "set")
    assert calls(tmp_path) == 300
    numpy.testing.assert_array_equal(prepare(function, X, tmp_path / "set").numpy(), X * 2)
    assert calls(tmp_path) == 0
    longer = numpy.concatenate([X, X[:7] + 1])
    numpy.testing.assert_array_equal(prepare(function, longer, tmp_path / "set").numpy(), longer * 2)
    assert calls(tmp_path) == 7
    prepare(function, longer, tmp_path / "set", fresh=True)
    assert calls(tmp_path) == 307


def test_one_more_row_makes_no_other_again(tmp_path: Path) -> None:
    function = counted(tmp_path, double)
    rows = numpy.random.default_rng(0).random((2001, 2))
    for length, made in ((500, 500), (501, 1), (510, 10), (2000, 2000), (2001, 1)):
        found = prepare(function, rows[:length], tmp_path / "set")
        assert calls(tmp_path) == made, length  # the last part is made again; of many more rows, all, in longer parts
        numpy.testing.assert_array_equal(found.numpy(), rows[:length] * 2)


def _image(path: Path, colour: int) -> None:
    from PIL import Image

    Image.fromarray(numpy.full((2, 2), colour, "uint8")).save(path)


def test_one_file_of_hundreds_makes_a_few_again(tmp_path: Path) -> None:
    """With so many files, some are worked on together; a change makes those again that are with it."""
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(300):
        _image(photos / f"{number:03d}.png", number % 256)
    function = counted(tmp_path, lambda image: int(image[0, 0]))
    expected = [number % 256 for number in range(300)]
    assert prepare(function, photos, tmp_path / "set").numpy().tolist() == expected
    assert calls(tmp_path) == 300
    for name, place in (("150b.png", 151), ("200.png", 201)):  # one is added, one is changed
        before = {part.key for part in opening.source(photos).parts()}
        expected[place : place + (name == "200.png")] = [7]
        _image(photos / name, 7)
        changed = [part for part in opening.source(photos).parts() if part.key not in before]
        assert prepare(function, photos, tmp_path / "set").numpy().tolist() == expected
        assert calls(tmp_path) == sum(part.stop - part.start for part in changed) < 10


@pytest.mark.parametrize("kind", stores.FORMATS)
def test_damage_is_found_and_only_that_is_made_again(kind: str, tmp_path: Path) -> None:
    function = counted(tmp_path, double)
    prepared = prepare(function, X, tmp_path / "set", format=kind, batch=10)
    calls(tmp_path)
    if kind == "npy":
        with open(tmp_path / "set" / "data.npy", "r+b") as file:
            file.seek(-8, os.SEEK_END)
            file.write(b"\0" * 8)
        assert prepared.verify() == [(290, 300)]
        again = 10
    else:
        path = tmp_path / "set" / "data.parquet"
        path = path if kind == "parquet" else tmp_path / "set" / "data.zarr" / "data" / "c" / "0" / "0"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 255
        path.write_bytes(content)
        prepared = tenfold.Prepared.open(tmp_path / "set")
        assert prepared.verify(), "something is damaged"
        again = sum(stop - start for start, stop in prepared.verify())
    repaired = prepare(function, X, tmp_path / "set", format=kind, batch=10)
    assert calls(tmp_path) == again
    numpy.testing.assert_array_equal(repaired.numpy(), X * 2)
    assert repaired.verify() == []


@pytest.mark.filterwarnings("ignore:The data type")  # Zarr's own, of texts
@pytest.mark.parametrize("kind", stores.FORMATS)
def test_orders_of_bytes_and_texts_of_any_bytes_are_kept(kind: str, tmp_path: Path) -> None:
    def odd(number: int) -> Any:
        text = bytes([65, 0, number, 0])
        return {"big": numpy.array([number, 7], ">i4"), "S": numpy.array(text, "S4"), "U": numpy.array(text.decode())}

    made = prepare(odd, range(5), tmp_path / "set", format=kind)
    assert made.verify() == []
    assert made.numpy()["big"].tolist() == [[number, 7] for number in range(5)]
    assert made.numpy()["big"].dtype.isnative
    texts = [bytes([65, 0, number, 0]).rstrip(b"\0") for number in range(5)]
    assert made.numpy()["S"].tolist() == texts == [text.encode() for text in made.numpy()["U"].tolist()]


@pytest.mark.parametrize(("kind", "dtype"), [("zarr", "longdouble"), ("parquet", "clongdouble"), ("parquet", "M8[h]")])
def test_types_that_a_format_has_not_are_refused_at_once(kind: Any, dtype: str, tmp_path: Path) -> None:
    function = counted(tmp_path, lambda row: numpy.zeros(2, dtype))
    with pytest.raises(tenfold.BadCall, match=rf"data is 2 of .*, which {kind.capitalize()} cannot keep"):
        prepare(function, X, tmp_path / "set", format=kind)
    assert calls(tmp_path) < 10
    assert prepare(function, X, tmp_path / "set").numpy().dtype == dtype


def test_a_changed_function_makes_everything_again(tmp_path: Path) -> None:
    prepare(double, X, tmp_path / "set")
    found = prepare(lambda row: (row * 3, 1), X, tmp_path / "set")
    numpy.testing.assert_array_equal(found.numpy()[0], X * 3)
    assert sorted(path.name for path in (tmp_path / "set").glob("[!.]*")) == ["manifest.json", "x.npy", "y.npy"]


def test_a_stream_is_read_again_and_its_rows_are_not_made_again(tmp_path: Path) -> None:
    function = counted(tmp_path, lambda value: value * 2.0)
    assert list(prepare(function, (float(i) for i in range(500)), tmp_path / "set").numpy()) == list(range(0, 1000, 2))
    assert calls(tmp_path) == 500
    assert len(prepare(function, (float(i) for i in range(500)), tmp_path / "set")) == 500
    assert calls(tmp_path) == 0


def test_tasks_have_their_own_random_numbers_the_same_every_time(tmp_path: Path) -> None:
    def noisy(row: Any) -> Any:
        return row + numpy.random.random(4)

    first, second = (prepare(noisy, X, tmp_path / name).numpy() for name in ("a", "b"))
    numpy.testing.assert_array_equal(first, second)
    other = prepare(noisy, X, tmp_path / "c", seed=1).numpy()
    assert not numpy.array_equal(first, other)
    assert len({tuple(row) for row in first - X}) > 100


def test_workers_with_a_gpu_are_used_again(tmp_path: Path) -> None:
    text = f"""
        import numpy, os, tenfold

        def where(x):
            return numpy.array([os.getpid(), int(os.environ["CUDA_VISIBLE_DEVICES"])])

        rows = tenfold.prepare(where, numpy.arange(300), {str(tmp_path / "set")!r}, gpus=1, progress=False).numpy()
        print(len({{tuple(row) for row in rows.tolist()}}), sorted(set(rows[:, 1].tolist())))
    """
    assert "2 [0, 1]" in scripts.run(tmp_path, text, {"TENFOLD_GPUS": "2"}).out
