"""The time that a library takes to sort, merge, join and add up changes: the work of collections, without a dataflow.

Changes are rows (key, value, time, diff) of 64-bit integers, as many keys as a third of the rows. Every library has its
input in a form of its own already, and leaves the result in it. Small inputs matter most: a changed edge of a graph
costs some rows an operator, round after round. A turn repeats such work until 20 ms have passed. All results are
compared.

NumPy has one thread; the others may use two. Polars and DuckDB come with the extra ``bench``; what is missing is said
to be.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from benchmarks.contestants.kernel_contestants import CONTESTANTS, ONE_WORD, Contestant, NumPy, Updates
from benchmarks.measuring.measurement import Report, alternate, arguments

TIMES = 16
ROUNDS = 3
TURN_S = 0.02
MOST_US = 100.0
TINY = ("sort and sum up 1 row", "join 1 key", "add up 1 key")

Prepare: TypeAlias = Callable[[Contestant], Callable[[], Any]]
"""Loads the input of some work into a library; returns what does the work once."""


def main() -> None:
    options = arguments("Compare libraries on the work that collections do on changes.")
    report = Report()
    contestants = present()
    for work in works(Sizes.quick() if options.quick else Sizes.full()):
        measure(report, work, contestants, ROUNDS)
    expect(report)
    report.finish(options.json)


def present() -> dict[str, Contestant]:
    """Return the contestants that are there by name, and say which are missing."""
    os.environ["POLARS_MAX_THREADS"] = "2"
    made = {}
    for name, make in CONTESTANTS.items():
        try:
            made[name] = make()
        except ImportError as error:
            print(f"{name}: missing ({error})")
    return made


def measure(report: Report, work: "Work", contestants: dict[str, Contestant], rounds: int) -> None:
    """Let the contestants take turns at some work, after they have all come to the same result."""
    calls = {name: work.prepare(one) for name, one in contestants.items() if work.sorts or name != ONE_WORD}
    expected = None
    for name, call in calls.items():
        result = in_order(contestants[name].arrays(call()))
        expected = result if expected is None else expected
        if not np.array_equal(result, expected):
            raise RuntimeError(f"{name} has found something else: {work.name}")
    turns = alternate({name: partial(milliseconds, call) for name, call in calls.items()}, rounds)
    for name, values in turns.items():
        report.add(f"{work.name}: {name}", values, "ms")


def milliseconds(call: Callable[[], Any]) -> float:
    """Return how long a call takes, repeated until a turn has passed."""
    began = perf_counter()
    calls = 0
    while calls == 0 or perf_counter() - began < TURN_S:
        call()
        calls += 1
    return (perf_counter() - began) / calls * 1e3


def in_order(columns: list[Any]) -> Any:
    """Return rows in order, as a matrix."""
    matrix = np.stack(columns)
    return matrix[:, np.lexsort(matrix[::-1])]


def expect(report: Report) -> None:
    """State what the choice rests on: NumPy's part in an operator's call for a single change."""
    values = {row.name: row.value for row in report.rows}
    for name in TINY:
        (whole,) = (row for row in values if row.startswith(name) and row.endswith(": NumPy"))
        report.expect(f"{whole}, µs", values[whole] * 1e3, MOST_US)


# ---------------------------------------------------------------------- what is done


@dataclass(frozen=True, slots=True)
class Work:
    """Some work, what prepares it, and whether it sorts: else both contestants of NumPy do the same."""

    name: str
    prepare: Prepare
    sorts: bool = False


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows are sorted, how many are merged with how many, how many keys joined with how many rows."""

    sorted: tuple[int, ...]
    merged: tuple[tuple[int, int], ...]
    keys: tuple[int, ...]
    arranged: int

    @classmethod
    def full(cls) -> "Sizes":
        """Return those of the documentation."""
        return cls((1, 1_000, 100_000, 10_000_000), ((10_000, 1_000_000), (1_000_000, 1_000_000)), KEYS, 1_000_000)

    @classmethod
    def quick(cls) -> "Sizes":
        """Return some that take seconds."""
        return cls((1, 1_000, 100_000), ((1_000, 100_000), (100_000, 100_000)), KEYS[:2], 100_000)


KEYS = (1, 1_000, 100_000)


def works(sizes: Sizes) -> Iterator[Work]:
    """Yield all work, with inputs that are the same in each run."""
    random = np.random.default_rng(1)
    for rows in sizes.sorted:
        yield Work(
            f"sort and sum up {text(rows, 'row')}", partial(consolidation, some_updates(random, rows, rows)), sorts=True
        )
    for few, many in sizes.merged:
        second = batch(random, many)
        fresh = some_updates(random, few - few // 2, many)
        taken = random.choice(many, few // 2, replace=False)
        against = Updates._make([*(column[taken] for column in second[:3]), -second.diff[taken]])
        first = NumPy().consolidate(Updates(*map(np.concatenate, zip(fresh, against, strict=True))))
        yield Work(f"merge {text(few, 'row')} with {many:,}", partial(merging, first, second), sorts=True)
    arranged = batch(random, sizes.arranged)
    for count in sizes.keys:
        keys = np.sort(random.choice(np.unique(arranged.key), count, replace=False))
        changed = Updates(keys, keys % 7, keys % TIMES, 1 - 2 * (keys & 1))
        yield Work(f"join {text(count, 'key')} with {sizes.arranged:,} rows", partial(joining, changed, arranged))
        yield Work(f"add up {text(count, 'key')} of {sizes.arranged:,} rows", partial(accumulation, arranged, keys))
    yield Work(f"add up all keys of {sizes.arranged:,} rows", partial(accumulation, arranged, None))


def text(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count > 1)}"


def some_updates(random: np.random.Generator, rows: int, of: int) -> Updates:
    """Return changes in any order; a third of them cancels others."""
    fresh = rows - rows // 3
    made = random.integers(0, [[of // 3 + 1], [of // 3 + 1], [TIMES]], (3, fresh))
    taken = random.choice(fresh, rows - fresh, replace=False)
    columns = np.concatenate([made, made[:, taken]], axis=1)
    diff = np.repeat([1, -1], [fresh, rows - fresh])
    order = random.permutation(rows)
    return Updates._make([*columns[:, order], diff[order]])


def batch(random: np.random.Generator, rows: int) -> Updates:
    """Return a batch of so many rows, with about three for each key."""
    left = NumPy().consolidate(some_updates(random, 4 * rows, rows))
    return Updates(*(column[:rows] for column in left))


def consolidation(updates: Updates, contestant: Contestant) -> Callable[[], Any]:
    return partial(contestant.consolidate, contestant.load(updates))


def merging(first: Updates, second: Updates, contestant: Contestant) -> Callable[[], Any]:
    return partial(contestant.merge, contestant.load(first), contestant.load(second))


def joining(changed: Updates, arranged: Updates, contestant: Contestant) -> Callable[[], Any]:
    return partial(contestant.join, contestant.load(changed), contestant.load(arranged))


def accumulation(arranged: Updates, keys: Any, contestant: Contestant) -> Callable[[], Any]:
    return partial(contestant.accumulate, contestant.load(arranged), keys, TIMES // 2)


if __name__ == "__main__":
    main()
