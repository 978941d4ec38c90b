"""The work that collections do on changes, once for each library that `collections/kernels.py` compares.

A change is a row (key, value, time, diff) of 64-bit integers. A batch is sorted by key, value and time, has each such
triple once, and no diff of 0. Every contestant keeps batches in a form of its own, and returns results in it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers: TypeAlias = npt.NDArray[np.int64]

PLACE = ("key", "value", "time")
COLUMNS = (*PLACE, "diff")
JOINED = ("key", "left", "right", "time", "diff")
FEW = 10
"""A batch with less than a tenth of the keys of an arrangement looks these up; with more it reads everything."""


class Updates(NamedTuple):
    """Changes as arrays of equal length."""

    key: Numbers
    value: Numbers
    time: Numbers
    diff: Numbers


class Contestant(Protocol):
    """A library that does the work on batches of its own form."""

    def load(self, updates: Updates) -> Any:
        """Return changes in the library's form, in the order of ``updates``."""

    def consolidate(self, updates: Any) -> Any:
        """Return a batch: changes in any order, sorted, with the diffs of equal ones added up."""

    def merge(self, first: Any, second: Any) -> Any:
        """Return one batch for two."""

    def join(self, changed: Any, arranged: Any) -> Any:
        """Return all pairs of changes with one key (key, left, right, time, diff): the later time, diffs multiplied."""

    def accumulate(self, arranged: Any, keys: Numbers | None, time: int) -> Any:
        """Return what the changes up to a time add up to (key, value, diff), for some keys or for all."""

    def arrays(self, result: Any) -> list[Numbers]:
        """Return the columns of a result."""


class NumPy:
    """Sorts with ``lexsort``, and finds keys by a binary search in the sorted ones."""

    def load(self, updates: Updates) -> Updates:
        return updates

    def consolidate(self, updates: Updates) -> Updates:
        order = np.lexsort((updates.time, updates.value, updates.key))
        return Updates(*added_up([column[order] for column in updates[:3]], updates.diff[order]))

    def merge(self, first: Updates, second: Updates) -> Updates:
        return self.consolidate(Updates(*map(np.concatenate, zip(first, second, strict=True))))

    def join(self, changed: Updates, arranged: Updates) -> list[Numbers]:
        first, count = found(arranged.key, changed.key)
        left, right = np.repeat(np.arange(len(count)), count), ranges(first, count)
        time = np.maximum(changed.time[left], arranged.time[right])
        diff = changed.diff[left] * arranged.diff[right]
        return [changed.key[left], changed.value[left], arranged.value[right], time, diff]

    def accumulate(self, arranged: Updates, keys: Numbers | None, time: int) -> list[Numbers]:
        rows: Any = slice(None) if keys is None else ranges(*found(arranged.key, keys))
        past = arranged.time[rows] <= time
        return added_up([column[rows][past] for column in arranged[:2]], arranged.diff[rows][past])

    def arrays(self, result: Any) -> list[Numbers]:
        return list(result)


class NumPyOneWord(NumPy):
    """Packs a row into one 64-bit word if its columns have narrow ranges, and sorts the words themselves."""

    def consolidate(self, updates: Updates) -> Updates:
        return self._sorted(updates, "quicksort")

    def merge(self, first: Updates, second: Updates) -> Updates:
        both = Updates(*map(np.concatenate, zip(first, second, strict=True)))
        return self._sorted(both, "stable")  # finds the two sorted runs, and merges them

    def _sorted(self, updates: Updates, kind: Any) -> Updates:
        least = [int(column.min()) for column in updates]
        bits = [(int(column.max()) - low).bit_length() for column, low in zip(updates, least, strict=True)]
        if sum(bits) > 63:
            return NumPy.consolidate(self, updates)
        word = updates.key - least[0]
        for column, low, wide in zip(updates[1:], least[1:], bits[1:], strict=True):
            word <<= wide
            word |= column - low
        word.sort(kind=kind)
        diff = (word & ((1 << bits[3]) - 1)) + least[3]
        (kept,), diff = summed(first_rows([word >> bits[3]]), [word], diff)
        columns = []
        kept = kept >> bits[3]
        for low, wide in zip(least[2::-1], bits[2::-1], strict=True):
            columns.append((kept & ((1 << wide) - 1)) + low)
            kept = kept >> wide
        return Updates._make([*columns[::-1], diff])


def first_rows(columns: list[Numbers]) -> Numbers:
    """Return the rows of sorted columns that differ from the row before."""
    new = np.ones(len(columns[0]), bool)
    if len(new):
        np.not_equal(columns[0][1:], columns[0][:-1], out=new[1:])
        for column in columns[1:]:
            new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(new)


def summed(first: Numbers, columns: list[Numbers], diff: Numbers) -> tuple[list[Numbers], Numbers]:
    """Return the columns and the sum of diffs of each run of rows that begins at ``first``, without sums of 0."""
    total = np.add.reduceat(diff, first) if len(first) else diff
    kept = total != 0
    rows = first[kept]
    return [column[rows] for column in columns], total[kept]


def added_up(columns: list[Numbers], diff: Numbers) -> list[Numbers]:
    """Return sorted columns with each row once, and the sums of diffs behind them."""
    kept, total = summed(first_rows(columns), columns, diff)
    return [*kept, total]


def found(arranged: Numbers, keys: Numbers) -> tuple[Numbers, Numbers]:
    """Return where the rows of each key begin in a sorted column, and how many they are."""
    first = np.searchsorted(arranged, keys)
    return first, np.searchsorted(arranged, keys, side="right") - first


def ranges(first: Numbers, count: Numbers) -> Numbers:
    """Return the numbers of several ranges, one after the other."""
    return np.repeat(first - np.cumsum(count) + count, count) + np.arange(int(count.sum()))


class Arrow:
    """Groups and joins by hash tables, then sorts."""

    def load(self, updates: Updates) -> pa.Table:
        return pa.table(updates._asdict())

    def consolidate(self, updates: pa.Table) -> pa.Table:
        return self._added_up(updates, PLACE).sort_by([(name, "ascending") for name in PLACE])

    def merge(self, first: pa.Table, second: pa.Table) -> pa.Table:
        return self.consolidate(pa.concat_tables([first, second]))

    def join(self, changed: pa.Table, arranged: pa.Table) -> pa.Table:
        both = changed.join(arranged, "key", join_type="inner", right_suffix="_right")
        time = pc.max_element_wise(both["time"], both["time_right"])
        diff = pc.multiply(both["diff"], both["diff_right"])
        return pa.table([both["key"], both["value"], both["value_right"], time, diff], names=list(JOINED))

    def accumulate(self, arranged: pa.Table, keys: Numbers | None, time: int) -> pa.Table:
        past = pc.field("time") <= time
        if keys is not None:
            past &= pc.field("key").isin(pa.array(keys))
        return self._added_up(arranged.filter(past), PLACE[:2])

    def _added_up(self, updates: pa.Table, by: tuple[str, ...]) -> pa.Table:
        table = updates.group_by(list(by)).aggregate([("diff", "sum")]).rename_columns([*by, "diff"])
        return table.filter(pc.field("diff") != 0)

    def arrays(self, result: pa.Table) -> list[Numbers]:
        return [column.to_numpy() for column in result.columns]


class Polars:
    """Groups and joins by hash tables with two threads; a few keys are found by a binary search."""

    def __init__(self) -> None:
        import polars

        self._pl: Any = polars

    def load(self, updates: Updates) -> Any:
        return self._pl.DataFrame(updates._asdict())

    def consolidate(self, updates: Any) -> Any:
        return self._added_up(updates, PLACE).sort(PLACE)

    def merge(self, first: Any, second: Any) -> Any:
        return self.consolidate(self._pl.concat([first, second]))

    def join(self, changed: Any, arranged: Any) -> Any:
        if len(changed) * FEW < len(arranged):
            left, right = self._found(arranged["key"], changed["key"])
            pairs = self._pl.concat(
                [changed[left], arranged[right].rename(lambda name: f"{name}_right")], how="horizontal"
            )
        else:
            pairs = changed.join(arranged, on="key")
        col = self._pl.col
        time = self._pl.max_horizontal("time", "time_right").alias("time")
        diff = (col("diff") * col("diff_right")).alias("diff")
        return pairs.select("key", col("value").alias("left"), col("value_right").alias("right"), time, diff)

    def accumulate(self, arranged: Any, keys: Numbers | None, time: int) -> Any:
        rows = arranged if keys is None else arranged[self._found(arranged["key"], self._pl.Series(keys))[1]]
        return self._added_up(rows.filter(self._pl.col("time") <= time), PLACE[:2])

    def _found(self, arranged: Any, keys: Any) -> tuple[Any, Any]:
        first, last = (arranged.search_sorted(keys, side=side) for side in ("left", "right"))
        rows = self._pl.DataFrame({"left": self._pl.int_range(len(keys), eager=True), "first": first, "last": last})
        pairs = rows.filter(self._pl.col("first") < self._pl.col("last")).select(
            "left", self._pl.int_ranges("first", "last").alias("right")
        )
        pairs = pairs.explode("right")
        return pairs["left"], pairs["right"]

    def _added_up(self, updates: Any, by: tuple[str, ...]) -> Any:
        col = self._pl.col("diff")
        return updates.group_by(by).agg(col.sum()).filter(col != 0)

    def arrays(self, result: Any) -> list[Numbers]:
        return [column.to_numpy() for column in result]


class DuckDB:
    """Runs a query over tables of a database in memory, with two threads; a result is a table of Arrow."""

    def __init__(self) -> None:
        import duckdb

        self._database: Any = duckdb.connect(config={"threads": 2})
        self._tables = 0

    def load(self, updates: Updates) -> Any:
        self._tables += 1
        name = f"updates_{self._tables}"
        self._database.from_arrow(pa.table(updates._asdict())).create(name)
        return self._database.table(name)

    def consolidate(self, updates: Any) -> pa.Table:
        return self._added_up(updates, "key, value, time").order("key, value, time").to_arrow_table()

    def merge(self, first: Any, second: Any) -> pa.Table:
        return self.consolidate(first.union(second))

    def join(self, changed: Any, arranged: Any) -> pa.Table:
        both = changed.set_alias("l").join(arranged.set_alias("r"), "l.key = r.key")
        columns = "l.key, l.value AS left, r.value AS right, greatest(l.time, r.time) AS time, l.diff * r.diff AS diff"
        return both.project(columns.replace("left", '"left"').replace("right", '"right"')).to_arrow_table()

    def accumulate(self, arranged: Any, keys: Numbers | None, time: int) -> pa.Table:
        rows = arranged.filter(f"time <= {time}")
        if keys is not None:
            wanted = self._database.from_arrow(pa.table({"wanted": keys}))
            rows = rows.join(wanted, "key = wanted")
        return self._added_up(rows, "key, value").to_arrow_table()

    def _added_up(self, updates: Any, by: str) -> Any:
        return updates.aggregate(f"{by}, sum(diff)::BIGINT AS diff", by).filter("diff <> 0")

    def arrays(self, result: pa.Table) -> list[Numbers]:
        return [column.to_numpy() for column in result.columns]


ONE_WORD = "NumPy, one word"

CONTESTANTS: dict[str, Callable[[], Contestant]] = {
    "NumPy": NumPy,
    ONE_WORD: NumPyOneWord,
    "pyarrow": Arrow,
    "Polars": Polars,
    "DuckDB": DuckDB,
}
