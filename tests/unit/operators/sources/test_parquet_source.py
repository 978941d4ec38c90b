"""Sources over Parquet files."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import DEADLINE_S, operator_settings
from tests.kit.operators.sources import bags_of, flow_of, read
from tidewheel.operators.sources.record_source import IterableSource


def write(folder: Path, *files: list[tuple[int, int]], group_size: int = 2, **options: Any) -> Path:
    """Write a file for each list of (day, n), in row groups of some size; return the folder."""
    for number, rows in enumerate(files):
        table = pa.table({"day": pa.array([day for day, _ in rows], pa.int32()), "n": [n for _, n in rows]})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=group_size, **options)
    return folder


files = st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 99)), max_size=7), min_size=1, max_size=3)


@operator_settings()
@given(files, st.integers(1, 3), st.booleans(), st.integers(1, 4), st.integers(1, 3))
def test_a_column_has_the_epochs(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[tuple[int, int]]],
    group_size: int,
    write_statistics: bool,
    batch_size: int,
    workers: int,
) -> None:
    """In any order of rows, row groups and files, with statistics or without: each row at its epoch, none too late."""
    folder = write(tmp_path_factory.mktemp("days"), *files, group_size=group_size, write_statistics=write_statistics)
    expected: dict[int, Counter[Any]] = {}
    for rows in files:
        for day, n in rows:
            expected.setdefault(day, Counter())[("day", day), ("n", n)] += 1
    source = tw.ParquetSource(folder, time="day", batch_size=batch_size)
    assert bags_of(source, workers) == expected


@operator_settings()
@given(files, st.none() | st.just("file") | st.integers(1, 3), st.integers(1, 3))
@example([[], [(0, 0)]], 1, 1)  # a file without rows may have a row group all the same
def test_row_groups_are_spread_over_the_workers(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[tuple[int, int]]], epoch_every: Any, workers: int
) -> None:
    """Each comes once, and its epoch depends on its place in the files only."""
    folder = write(tmp_path_factory.mktemp("groups"), *files)
    expected: dict[int, Counter[int]] = {}
    group = 0
    for file, rows in enumerate(files):
        for start in range(0, len(rows), 2):
            epoch = {None: 0, "file": file}.get(epoch_every)
            epoch = group // epoch_every if epoch is None else epoch
            expected.setdefault(epoch, Counter()).update(n for _, n in rows[start : start + 2])
            group += 1
    source = tw.ParquetSource(folder, columns=["n"], epoch_every=epoch_every)
    assert bags_of(source, workers) == expected
    batches = [result.batch for result in read(source, workers)]
    assert all(isinstance(batch, pa.RecordBatch) and batch.schema.names == ["n"] for batch in batches)


def test_workers_share_row_groups(tmp_path: Path) -> None:
    """One file is enough for all workers to have something to do."""
    source = tw.ParquetSource(write(tmp_path, [(0, n) for n in range(8)]))
    for worker in range(4):
        fetched: Any = source.open(source.partitions_of(4)[worker], None)
        assert [one.batch.to_pydict()["n"] for one in fetched] == [[2 * worker, 2 * worker + 1]]


def test_sorted_files_are_read_bit_by_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the least of each row group known, no more than one is held that goes beyond its successor's beginning."""
    source = tw.ParquetSource(write(tmp_path, [(n // 3, n) for n in range(60)]), time="day")
    groups: list[int] = []
    batches = tw.ParquetSource._batches

    def watched(own: Any, group: Any) -> Any:
        groups.append(group.number)
        return batches(own, group)

    monkeypatch.setattr(tw.ParquetSource, "_batches", watched)
    fetched: Any
    for fetched in source.open("0/1", None):
        assert isinstance(fetched.batch, pa.RecordBatch)
        assert 2 * groups[-1] <= 3 * fetched.epoch + 2 + 2 * 2
    assert groups == list(range(30))


def test_a_probe_follows_the_column(tmp_path: Path) -> None:
    """An epoch is complete when all workers have read past it, long before the end."""
    source = tw.ParquetSource(write(tmp_path, [(n // 10, n) for n in range(100)]), time="day")
    with tw.run(flow_of(source), workers=2, engine="local") as job:
        job.probe("read").wait_until(3, DEADLINE_S)
        times = Counter({result.time: 0 for result in job.captured("results")})
        for result in job.captured("results"):
            times[result.time] += result.batch.num_rows
        assert [times[epoch] for epoch in range(3)] == [10, 10, 10]
        assert max(times) < 8


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pa.array([1, None]), "ValueError: column 'day' of .*/days.parquet has nulls"),
        (pa.array([-1, 2]), "TokenError: .* to -1: that is no time of this scope"),
    ],
)
def test_what_is_no_epoch_fails_the_job(tmp_path: Path, values: Any, message: str) -> None:
    """The error names the source, the column and the file."""
    pq.write_table(pa.table({"day": values}), tmp_path / "days.parquet")
    with pytest.raises(tw.JobError, match=rf"(?s)'source' (failed|could not be built) on worker 0.*{message}"):
        read(tw.ParquetSource(tmp_path, time="day"))


def test_a_file_that_cannot_have_the_epochs_is_refused_at_once(tmp_path: Path) -> None:
    """The error lists the columns that it has, or says of what type the one is."""
    pq.write_table(pa.table({"n": [1.5]}), tmp_path / "days.parquet")
    with raises(tw.GraphError):
        tw.ParquetSource(tmp_path, time="day")
    with raises(tw.GraphError):
        tw.ParquetSource(tmp_path, time="n")


@pytest.mark.parametrize("rows", [[(0, 1)], []])
def test_columns_that_are_not_there_are_refused_at_once(tmp_path: Path, rows: list[tuple[int, int]]) -> None:
    """The error names the file, the column and those that there are; a field in a column can be read as well."""
    folder = write(tmp_path, rows)
    for columns in (["n", "typo"], ["typo"], ["n.typo"]):
        message = rf"ParquetSource: {folder}/0.parquet has no column '{columns[-1]}'; it has \['day', 'n'\]"
        with pytest.raises(tw.GraphError, match=message):
            tw.ParquetSource(folder, columns=columns)
    pq.write_table(pa.table({"place": [{"city": "Oslo", "lat": 60}]}), tmp_path / "nested.parquet")
    [result] = read(tw.ParquetSource(tmp_path / "nested.parquet", columns=["place.city"]))
    assert result.batch.to_pylist() == [{"place": {"city": "Oslo"}}]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"a": [2], "b": ["x"]}, "column 'b' is missing in {}/0.parquet, and string in {}/1.parquet"),
        ({"a": [2.5]}, "column 'a' is int64 in {}/0.parquet, and double in {}/1.parquet"),
        ({}, "column 'a' is int64 in {}/0.parquet, and missing in {}/1.parquet"),
    ],
)
def test_files_with_other_columns_are_refused_at_once(tmp_path: Path, other: Any, message: str) -> None:
    """The error names both files and the column; those that are not read may differ."""
    pq.write_table(pa.table({"a": [1], "c": [0]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({**other, "c": [0]}), tmp_path / "1.parquet")
    with pytest.raises(tw.GraphError, match=f"ParquetSource: {message.format(tmp_path, tmp_path)}"):
        tw.ParquetSource(tmp_path)
    assert bags_of(tw.ParquetSource(tmp_path, columns=["c"])) == {0: Counter({(("c", 0),): 2})}


def test_files_are_looked_at_again_when_they_are_opened(tmp_path: Path) -> None:
    """They may have been written anew since the source was made."""
    source = tw.ParquetSource(write(tmp_path, [(0, 1)], [(0, 2)]), columns=["n"])
    pq.write_table(pa.table({"n": ["x"]}), tmp_path / "1.parquet")
    with raises(tw.JobError):
        read(source)
    pq.write_table(pa.table({"m": ["x"]}), tmp_path / "1.parquet")
    with raises(tw.JobError):
        read(source)


def test_columns_may_be_in_any_order(tmp_path: Path) -> None:
    """All batches have them as the first file has, or as they were asked for."""
    pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"b": [4], "a": [3]}), tmp_path / "1.parquet")
    for columns, names in ((None, ["a", "b"]), (["b", "a"], ["b", "a"])):
        assert [r.batch.schema.names for r in read(tw.ParquetSource(tmp_path, columns=columns))] == [names, names]


def test_errors_say_which_file_is_damaged(tmp_path: Path) -> None:
    """Whether its end is, which is read at once, or its rows."""
    write(tmp_path, [(0, n) for n in range(1000)], group_size=1000, compression="snappy")
    (tmp_path / "1.parquet").write_bytes(b"PAR1xxxxPAR1")
    with pytest.raises(pa.ArrowInvalid) as damaged:
        tw.ParquetSource(tmp_path)
    assert damaged.value.__notes__ == [f"This is file {tmp_path / '1.parquet'}."]
    path = tmp_path / "0.parquet"
    path.write_bytes(path.read_bytes()[:4] + b"\xff" * 2000 + path.read_bytes()[2004:])
    with pytest.raises(tw.JobError) as failed:
        read(tw.ParquetSource(path))
    assert f"This is file {path}." in failed.value.traceback_text


def test_the_column_is_kept(tmp_path: Path) -> None:
    """It is read though it is not asked for."""
    source = tw.ParquetSource(write(tmp_path, [(3, 1)]), columns=["n"], time="day")
    [result] = read(source)
    assert (result.time, result.batch.to_pylist()) == (3, [{"n": 1, "day": 3}])


def test_nested_columns_do_not_confuse_it(tmp_path: Path) -> None:
    """A field of a struct may have the name of the column, with other values."""
    inner = pa.array([{"day": 100}, {"day": 100}])
    pq.write_table(pa.table({"inner": inner, "day": [2, 1]}), tmp_path / "days.parquet", row_group_size=1)
    results = read(tw.ParquetSource(tmp_path, time="day"))
    assert [(result.time, result.batch.to_pydict()["day"]) for result in results] == [(1, [1]), (2, [2])]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "ParquetSource: batch_size is a whole number, 1 or more, not 0"),
        (
            {"epoch_every": "day"},
            "ParquetSource: epoch_every, unless .*, is a whole number, 1 or more, not 'day'",
        ),
        ({"epoch_every": 1, "time": "day"}, "ParquetSource: epochs come from a column, time=, or by epoch_every=, not"),
        ({"columns": "n"}, "ParquetSource: columns is a list of names, not 'n'"),
    ],
)
def test_wrong_options_are_refused_at_once(tmp_path: Path, options: Any, message: str) -> None:
    """When the source is made, as is a folder without files."""
    with pytest.raises(tw.GraphError, match=message):
        tw.ParquetSource(write(tmp_path, [(0, 0)]), **options)
    (tmp_path / "empty").mkdir()
    with raises(tw.GraphError):
        tw.ParquetSource(tmp_path / "empty")


def test_arrow_stays_arrow(tmp_path: Path) -> None:
    """The rows are the same as those of a table that is given directly."""
    folder = write(tmp_path, [(0, 1), (0, 2)])
    table = pq.read_table(folder / "0.parquet")
    assert bags_of(tw.ParquetSource(folder)) == bags_of(IterableSource([[(0, table)]]))
