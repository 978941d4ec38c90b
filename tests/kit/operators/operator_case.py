"""The case of an operator: a description, what plain Python says comes of it, and the kinds of batches.

Each test file of an operator has ``CASES``; `test_every_operator` and `tests/ray/test_operators` run them all: for any
split of the input into batches and epochs, on one, two and four workers, on both engines, for lists and Arrow.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import tidewheel as tw
from tests.kit.operators.harness import ARRAYS, LISTS, RECORD_BATCHES, TABLES, Bags, Feed, Kind
from tidewheel.batches.batches import records

ALL_KINDS = (LISTS, TABLES, RECORD_BATCHES, ARRAYS)
ONLY_LISTS = (LISTS,)
ONLY_ARROW = (TABLES, RECORD_BATCHES)


@dataclass(frozen=True)
class OperatorCase:
    """One use of an operator.

    Attributes:
        operator: the method of `Stream` or `Dataflow` that it tries, such as ``"map"``.
        describe: puts the operator behind a stream of numbers. A record is an int, or on Arrow a row ``{"n": int}``;
            `number_of` reads either.
        expected: what comes out, by plain Python: for all (time, numbers) that are sent the bag of plain records (see
            `plain`) of each time. A time without records is not in it.
        kinds: the kinds of batches that the operator takes.
        name: which use this is, if an operator has several.
    """

    operator: str
    describe: Callable[[tw.Stream[Any]], tw.Stream[Any]]
    expected: Callable[[Feed], Bags]
    kinds: tuple[Kind, ...] = ALL_KINDS
    name: str = ""

    def __str__(self) -> str:
        return f"{self.operator}{'-' if self.name else ''}{self.name}"


def number_of(record: Any) -> int:
    """Return the number of a record of any kind."""
    return int(record["n"] if isinstance(record, dict) else record)


def plain(record: Any) -> Any:
    """Return a record as a value that can be counted: a row with the one column "n" as its number.

    Any other row becomes the tuple of its (name, value), lists become tuples.
    """
    if isinstance(record, dict):
        if set(record) == {"n"}:
            return record["n"]
        return tuple((name, plain(value)) for name, value in sorted(record.items()))
    if isinstance(record, list | tuple):
        return tuple(plain(part) for part in record)
    return record.item() if hasattr(record, "item") else record


def plain_bags(results: Iterable[tw.types.Captured]) -> Bags:
    """Return how often each plain record came at each time."""
    found: Bags = {}
    for result in results:
        found.setdefault(result.time, Counter()).update(map(plain, records(result.batch)))
    return {time: bag for time, bag in found.items() if bag}


def by_time(feed: Feed) -> dict[int, list[int]]:
    """Return all numbers of each time that has any, in order of times."""
    found: dict[int, list[int]] = {}
    for time, numbers in feed:
        if numbers:
            found.setdefault(time, []).extend(numbers)
    return dict(sorted(found.items()))


def each_epoch(function: Callable[[list[int]], Iterable[Any]]) -> Callable[[Feed], Bags]:
    """Return an expectation: what ``function`` makes of all numbers of each epoch, at that epoch."""

    def expected(feed: Feed) -> Bags:
        made = {time: Counter(map(plain, function(numbers))) for time, numbers in by_time(feed).items()}
        return {time: bag for time, bag in made.items() if bag}

    return expected
