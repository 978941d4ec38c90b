"""The common ground of the tests of joins: two streams of keyed rows, and the join by two nested loops."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.operators.harness import DEADLINE_S, Bags, ignore_others

NAN = float("nan")

KEYS: list[Any] = [None, NAN, 0, -0.0, 1, 1.0, True, Decimal(1), 2**53 + 1, float(2**53), "a", "", b"a", (1, 2)]
"""Keys of many types, some of which are equal, and some match nothing."""

COMPOSITE_KEYS: list[Any] = [(1, None), (1, NAN), (1.0, 2), ("a",)]

WORKERS = st.sampled_from((1, 2, 4))


class Row(NamedTuple):
    """A record with a key, and a number that tells it from others."""

    key: Any
    number: int


Feed: TypeAlias = list[tuple[int, list[Row]]]
"""(time, rows) of each batch, in the order in which they are sent; times never go back."""

Make: TypeAlias = Callable[[list[Row]], Any]
"""Makes a batch of rows."""

Pairs: TypeAlias = list[tuple[Row | None, Row | None]]


@st.composite
def row_feeds(draw: st.DrawFn, keys: Sequence[Any]) -> Feed:
    """Rows with any of ``keys`` in any split into batches and epochs; their numbers are all different."""
    time, number, feed = 0, 0, []
    for step, batch in draw(st.lists(st.tuples(st.integers(0, 2), st.lists(st.sampled_from(keys), max_size=5)))):
        time += step
        feed.append((time, [Row(key, number + place) for place, key in enumerate(batch)]))
        number += len(batch)
    return feed


def do_match(left: Row, right: Row) -> bool:
    """Tell whether two keys match: they are equal, and no part of them is None or NaN."""
    parts = [part for row in (left, right) for part in (row.key if isinstance(row.key, tuple) else [row.key])]
    return bool(left.key == right.key) and all(part is not None and part == part for part in parts)  # noqa: PLR0124


def nested_loops(lefts: Iterable[Row], rights: Iterable[Row], how: str = "inner") -> Pairs:
    """Return what a join is by its definition."""
    lefts, rights = list(lefts), list(rights)
    found: Pairs = [(left, right) for left in lefts for right in rights if do_match(left, right)]
    if how in {"left", "outer"}:
        found += [(left, None) for left in lefts if not any(do_match(left, right) for right in rights)]
    if how in {"right", "outer"}:
        found += [(None, right) for right in rights if not any(do_match(left, right) for left in lefts)]
    return found


def each_epoch_joined(left: Feed, right: Feed, how: str) -> Bags:
    """Return the numbers of the rows in each pair, None for a missing one, that the join of each epoch has."""
    lefts, rights = rows_at(left), rows_at(right)
    made = {time: nested_loops(lefts.get(time, []), rights.get(time, []), how) for time in lefts | rights}
    return {time: pair_numbers(pairs) for time, pairs in made.items() if pairs}


def rows_at(feed: Feed) -> dict[int, list[Row]]:
    """Return all rows of each time."""
    found: dict[int, list[Row]] = {}
    for time, rows in feed:
        found.setdefault(time, []).extend(rows)
    return found


def pair_numbers(pairs: Pairs) -> Counter[Any]:
    """Return how often there is a pair of rows with these numbers."""
    return Counter((left and left.number, right and right.number) for left, right in pairs)


def numbers_in_pairs(results: list[tw.types.Captured]) -> Bags:
    """Return the numbers of the rows in the pairs that came out at each time."""
    found: Bags = {}
    for result in results:
        found.setdefault(result.time, Counter()).update(pair_numbers(result.batch))
    return found


def numbers_in_tables(results: list[tw.types.Captured]) -> Bags:
    """Return the numbers in columns ``l`` and ``r`` of the tables that came out at each time."""
    found: Bags = {}
    for result in results:
        assert isinstance(result.batch, pa.Table)
        rows = result.batch.to_pylist()
        found.setdefault(result.time, Counter()).update((row.get("l"), row.get("r")) for row in rows)
    return found


def table_of(kind: pa.DataType, key: str, number: str) -> Make:
    """Return a function that makes a table of rows, with a column of keys of a type and one of their numbers."""

    def make(rows: list[Row]) -> Any:
        keys = pa.array([row.key for row in rows], kind)
        return pa.table({key: keys, number: pa.array([row.number for row in rows], pa.int64())})

    return make


def run_two(
    describe: Callable[[tw.Stream[Any], tw.Stream[Any]], Sequence[tw.Stream[Any]]],
    feeds: tuple[Feed, Feed],
    workers: int = 1,
    make: tuple[Make, Make] = (list, list),
) -> list[list[tw.types.Captured]]:
    """Run two inputs and the streams that ``describe`` makes of them to the end; return what came out of each."""
    flow = tw.Dataflow("test")
    streams = describe(flow.input("left"), flow.input("right"))
    for number, stream in enumerate(streams):
        stream.capture(str(number))
    ignore_others(flow)
    with tw.run(flow, workers=workers, engine="local") as job:
        for name, feed, made in zip(("left", "right"), feeds, make, strict=True):
            with job.input(name) as handle:
                for time, rows in feed:
                    handle.advance_to(time)
                    handle.send(made(rows))
        job.wait(DEADLINE_S)
        return [list(job.captured(str(number))) for number in range(len(streams))]
