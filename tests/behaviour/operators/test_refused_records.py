"""What a source reads and cannot make a record of: a letter for each, once, at its time, also across a crash."""

import gc
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import DEADLINE_S, settle
from tidewheel.batches.batches import records
from tidewheel.operators.files import line_blocks

GOOD = [n for n in range(60) if n % 7]
BAD = [n for n in range(60) if not n % 7]


class Messages(tw.Source[int]):
    """Numbers as text, of which each seventh is no number."""

    look_every_s = None

    def __init__(self, error: Exception, *names: str) -> None:
        self.error = error
        self.names = names or ("even", "odd")

    def partitions(self) -> tuple[str, ...]:
        return self.names

    def open(self, partition: Any, position: Any) -> Iterator[tw.Fetched[int]]:
        numbers = range(partition == "odd", 60, 2)
        for begin in range(position or 0, len(numbers), 5):
            some = numbers[begin : begin + 5]
            refused = [tw.Refused(f"no {n}", self.error, f"offset {n}") for n in some if n % 7 == 0]
            yield tw.Fetched([n for n in some if n % 7], begin + 5, refused=refused)


def described(source: Any) -> tw.Dataflow:
    flow = tw.Dataflow("refused")
    letters = flow.dead_letters("letters")
    flow.source("numbers", source, dead_letters=letters).capture("results")
    letters.capture("letters")
    return flow


def all_of(job: tw.types.Job, name: str) -> list[Any]:
    return [record for captured in job.captured(name) for record in records(captured.batch)]


@pytest.mark.parametrize("rounds", [1, 3, 9])
def test_a_source_of_ones_own_goes_on_behind_them(rounds: int, tmp_path: Path) -> None:
    """A batch of a partition and its letters are in one step: a snapshot at any moment has both or neither."""

    def begin(workers: int) -> tw.types.Job:
        snapshots = tw.Snapshots(tmp_path, every_s=1000)
        return tw.run(
            described(Messages(ValueError("no number"))), workers=workers, engine="local", snapshots=snapshots
        )

    with begin(2) as job:
        for _ in range(rounds):
            job.run_round()  # type: ignore[attr-defined]
        job.snapshot()
        settle(job)
        job.stop()
    with begin(3) as job:
        job.wait(DEADLINE_S)
        assert sorted(all_of(job, "results")) == GOOD
        letters = all_of(job, "letters")
    assert sorted(letter.record for letter in letters) == sorted(f"no {n}" for n in BAD)
    assert {(letter.error, letter.message) for letter in letters} == {("ValueError", "no number")}
    places = {f"numbers, partition '{'odd' if n % 2 else 'even'}', offset {n}" for n in BAD}
    assert {letter.where for letter in letters} == places


def test_a_letter_has_the_epoch_of_its_batch() -> None:
    """That is the epoch of the records which were read with it."""
    with tw.run(described(Messages(ValueError("no number"))), workers=2, engine="local") as job:
        job.wait(DEADLINE_S)
        epochs = {n: captured.time for captured in job.captured("results") for n in captured.batch}
        for captured in job.captured("letters"):
            for letter in captured.batch:
                n = int(letter.record.removeprefix("no "))
                neighbour = n + 2 if n // 10 == (n + 2) // 10 else n - 2
                assert captured.time == epochs[neighbour]


@pytest.mark.parametrize("letters", [False, True], ids=["without letters", "of other errors"])
def test_the_error_fails_the_job(letters: bool) -> None:
    """With its own class and words, unless there are letters of such errors."""
    flow = tw.Dataflow("refused")
    of_others = flow.dead_letters(catch=OSError).ignore() if letters else None
    flow.source("numbers", Messages(LookupError("no number"), "even"), dead_letters=of_others).capture("results")
    with raises(tw.JobError) as caught:
        tw.run(flow, engine="local").wait(DEADLINE_S)
    assert isinstance(caught.value.__cause__, LookupError)


class Awkward(tw.Source[int]):
    """Refuses things one by one, with an error after which a connection is opened again."""

    def partitions(self) -> list[int]:
        return [0]

    def open(self, partition: Any, position: Any) -> Iterator[tw.Fetched[int]]:
        if position is None:
            refused: Any = (tw.Refused(bytes([n]), TimeoutError("no time"), f"at {n}") for n in range(3))
            yield tw.Fetched([1], 1, refused=refused)


def test_what_is_refused_may_come_from_a_generator() -> None:
    """None of it is lost."""
    with tw.run(described(Awkward()), engine="local") as job:
        job.wait(DEADLINE_S)
        assert [letter.record for letter in all_of(job, "letters")] == [b"\0", b"\1", b"\2"]


def test_a_refusal_is_no_failure_of_the_connection() -> None:
    """Another attempt would read the same: the job fails at once."""
    flow = tw.Dataflow("refused")
    flow.source("numbers", Awkward()).ignore()
    with pytest.raises(tw.JobError, match=r"could not read partition 0, .*TimeoutError: no time"):
        tw.run(flow, engine="local").wait(DEADLINE_S)


SCHEMA = pa.schema({"n": pa.int64()})

FILES = {
    "jsonl": ([json.dumps({"n": n}) if n % 7 else f"{{n: {n}" for n in range(60)], {}),
    "jsonl, columns": ([json.dumps({"n": n if n % 7 else f"seven {n}"}) for n in range(60)], {"schema": SCHEMA}),
    "csv": (["n", *[str(n) if n % 7 else f"x{n}" for n in range(60)]], {"schema": SCHEMA}),
}


@pytest.mark.parametrize("block_bytes", [1, 40, 1 << 20])
@pytest.mark.parametrize("cut", [0, 4])
@pytest.mark.parametrize("name", FILES)
def test_bad_lines_of_a_file(
    name: str, cut: int, block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is found among its neighbours, in blocks of any size, also if a block has only bad ones."""
    assert line_blocks.line_blocks.__defaults__ is not None
    monkeypatch.setattr(line_blocks.line_blocks, "__defaults__", (0, b"", block_bytes))
    lines, options = FILES[name]
    (tmp_path / f"file.{name.partition(',')[0]}").write_text("\n".join(lines) + "\n")

    def begin() -> tw.types.Job:
        source = tw.FileSource(tmp_path / f"file.{name.partition(',')[0]}", **options)
        snapshots = tw.Snapshots(tmp_path / "snapshots", every_s=1000)
        return tw.run(described(source), workers=2, engine="local", snapshots=snapshots)

    with begin() as job:
        for _ in range(cut):
            job.run_round()  # type: ignore[attr-defined]
        job.snapshot()
        job.stop()
    with begin() as job:
        job.wait(DEADLINE_S)
        assert Counter(record["n"] for record in all_of(job, "results")) == Counter(GOOD)
        letters = all_of(job, "letters")
    bad = [line for n, line in enumerate(lines[-60:]) if n % 7 == 0]
    assert Counter(letter.record for letter in letters) == Counter(line.encode() for line in bad)
    text = "\n".join(lines)
    assert {int(letter.where.rpartition(" ")[2]) for letter in letters} == {text.index(line) for line in bad}


@pytest.mark.parametrize("letters", [False, True])
@pytest.mark.parametrize(
    ("name", "text", "bad"),
    [
        ("file.jsonl", b'{"a":1,\n\n', b'{"a":1,'),
        ("file.jsonl", b'\n{"a":1,', b'{"a":1,'),
        ("file.csv", b"n\n\nx,y\n", b"x,y"),
        ("file.txt", b"na\xdf", b"na\xdf"),
    ],
)
def test_a_file_with_no_record_does_not_lose_its_bad_lines(
    letters: bool, name: str, text: bytes, bad: bytes, tmp_path: Path
) -> None:
    """Also if all other lines are blank: a letter, or a job that fails."""
    (tmp_path / name).write_bytes(text)
    options: dict[str, Any] = {"schema": SCHEMA} if name.endswith("csv") else {}
    flow = tw.Dataflow("refused")
    found = flow.dead_letters()
    source = tw.FileSource(tmp_path / name, **options)
    flow.source("lines", source, dead_letters=found if letters else None).capture("results")
    found.capture("letters")
    if not letters:
        with pytest.raises(tw.JobError, match=r"Error"):
            tw.run(flow, engine="local").wait(DEADLINE_S)
        return
    with tw.run(flow, engine="local") as job:
        job.wait(DEADLINE_S)
        assert [record for record in all_of(job, "results") if record != ""] == []
        assert [letter.record for letter in all_of(job, "letters")] == [bad]


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Collect no garbage: finalizers that run where a reader has reached the recursion limit would fail."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        (pa.int64(), "99999999999999999999"),
        (pa.uint8(), "-1"),
        (pa.uint8(), "256"),
        (pa.int64(), "[" * 100_000),
        (pa.list_(pa.int64()), "[" * 900 + "]" * 900),
        (pa.date32(), '"no day"'),
        (pa.struct({"a": pa.int8()}), "3"),
        (pa.map_(pa.string(), pa.int8()), '{"a": "b"}'),
        (pa.decimal128(3), '"x"'),
    ],
    ids=lambda one: str(one)[:20],
)
def test_a_value_that_its_column_cannot_hold_is_a_letter(kind: pa.DataType, bad: str, tmp_path: Path) -> None:
    """Whatever Python or Arrow raise for it."""
    (tmp_path / "file.jsonl").write_text(f'{{"n": null}}\n{{"n": {bad}}}\n{{"n": null}}\n')
    source = tw.FileSource(tmp_path / "file.jsonl", schema=pa.schema({"n": kind}))
    with tw.run(described(source), engine="local") as job:
        job.wait(DEADLINE_S)
        assert [row["n"] for row in all_of(job, "results")] == [None, None]
        assert [letter.record for letter in all_of(job, "letters")] == [f'{{"n": {bad}}}'.encode()]


def test_lines_in_another_encoding(tmp_path: Path) -> None:
    """They are letters with their bytes; an error that names the file fails a job without letters."""
    (tmp_path / "file.txt").write_bytes(b"one\nna\xdf\nthree\n")
    with tw.run(described(tw.FileSource(tmp_path / "file.txt")), engine="local") as job:
        job.wait(DEADLINE_S)
        assert all_of(job, "results") == ["one", "three"]
        [letter] = all_of(job, "letters")
    assert (letter.record, letter.error) == (b"na\xdf", "UnicodeDecodeError")
    flow = tw.Dataflow("refused")
    flow.source("lines", tw.FileSource(tmp_path / "file.txt")).capture("results")
    with pytest.raises(tw.JobError) as caught:
        tw.run(flow, engine="local").wait(DEADLINE_S)
    assert f"This is file {tmp_path / 'file.txt'}." in caught.value.traceback_text


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_files_without_lines_have_no_letters(name: str, tmp_path: Path) -> None:
    """A damaged one fails the job, so letters would wait in vain."""
    table = pa.table({"n": [1]})
    if name == "parquet":
        pq.write_table(table, tmp_path / "file.parquet")
    else:
        feather.write_feather(table, tmp_path / "file.arrow")
    flow = tw.Dataflow("refused")
    source = tw.FileSource(tmp_path / f"file.{name}")
    with raises(tw.GraphError):
        flow.source("rows", source, dead_letters=flow.dead_letters())


def test_a_block_whose_lines_may_belong_together_is_refused_whole(tmp_path: Path) -> None:
    """A value of CSV may have line ends: where a bad line begins would be a guess."""
    from pyarrow import csv

    (tmp_path / "file.csv").write_text('n,text\n1,"a\nb"\nx,c\n')
    schema = pa.schema({"n": pa.int64(), "text": pa.string()})
    source = tw.FileSource(tmp_path, schema=schema, csv=csv.ParseOptions(newlines_in_values=True))
    with tw.run(described(source), engine="local") as job:
        job.wait(DEADLINE_S)
        assert all_of(job, "results") == []
        [letter] = all_of(job, "letters")
    assert letter.record == b'1,"a\nb"\nx,c'
