"""Records that are no rows, in files: named fields are columns, as are the places of tuples."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tidewheel as tw
from tests.kit.operators.harness import DEADLINE_S
from tests.unit.operators.sinks.test_write_files import rows_in


class Pair(NamedTuple):
    """A record with names."""

    word: str
    n: int


@dataclass(frozen=True)
class Point:
    """Another one."""

    word: str
    n: int


def written(records: list[Any], folder: Path, kind: Any) -> list[Any]:
    """Return what is in the file of one epoch."""
    flow = tw.Dataflow("test")
    flow.source("records", tw.RecordSource(records)).write_files(folder, kind)
    with tw.run(flow, engine="local") as job:
        job.wait(DEADLINE_S)
    return list(rows_in(folder / "epoch=0"))


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("make", [Pair, Point, lambda word, n: {"word": word, "n": n}], ids=["named", "fields", "dict"])
def test_names_are_columns(make: Any, kind: str, tmp_path: Path) -> None:
    """Whatever has names keeps them."""
    records = [make("tide", 1), make("wheel", 2)]
    assert written(records, tmp_path, kind) == [{"word": "tide", "n": 1}, {"word": "wheel", "n": 2}]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_places_of_tuples_are_columns(kind: str, tmp_path: Path) -> None:
    """Of any types, as Spark names them; where some are longer, the others are null there."""
    assert written([("tide", 1), ("wheel", 2, 0.5)], tmp_path, kind) == [
        {"_1": "tide", "_2": 1, "_3": None},
        {"_1": "wheel", "_2": 2, "_3": 0.5},
    ]


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_late_records_can_be_written(kind: Any, tmp_path: Path) -> None:
    """With all that is said of them, the record among it."""
    flow = tw.Dataflow("test")
    hits = [(0, [{"user": "ann", "at": 50}]), (1, [{"user": "bob", "at": 70}]), (2, [{"user": "ann", "at": 5}])]
    windows = flow.source("hits", tw.IterableSource([hits])).window(tw.TumblingWindows(10), key="user", at="at")
    windows.late.write_files(tmp_path, kind)
    windows.results.ignore()
    with tw.run(flow, workers=2, engine="local") as job:
        job.wait(DEADLINE_S)
    (row,) = rows_in(tmp_path / "epoch=2")
    assert (row["key"], row["start"], row["at"], row["record"]) == ("ann", 0, 5, {"user": "ann", "at": 5})
