"""A row of the table of operators: a use of one, and what plain Python says of it.

`operator_table` has the rows. `test_every_operator` runs all of them, and `tests/ray/test_operators` does so on Ray.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import tidewheel as tw
from tests.kit.operators.harness import ARRAYS, LISTS, RECORD_BATCHES, TABLES, Bags, Feed, Kind
from tidewheel.batches.batches import records

ALL_KINDS = (LISTS, TABLES, RECORD_BATCHES, ARRAYS)
ONLY_LISTS = (LISTS,)
ONLY_ARROW = (TABLES, RECORD_BATCHES)

Read: TypeAlias = Callable[[Any], int]
"""Reads the number of a record of any kind."""

Results: TypeAlias = Mapping[Any, Iterable[Any]]
"""The records of each time."""


def number_of(record: Any) -> int:
    """Return the number of a record of any kind."""
    return int(record["n"] if isinstance(record, dict) else record)


@dataclass(frozen=True)
class OperatorCase:
    """One use of an operator.

    Attributes:
        operator: the method that it tries, such as ``"map"`` of a stream or ``"Collection.map"``.
        put: puts the operator behind a stream of numbers. A record is an int, or on Arrow a row ``{"n": int}``. The
            function that it gets reads either. It is `number_of`, or one that raises: all functions of a user's read
            records by it. A use without such functions names it ``_``.
        results: what comes out, by plain Python: for all (time, numbers) that are sent the records of each time.
        kinds: the kinds of batches that the operator takes.
        name: which use this is, if an operator has several.
        gives: the kind of batches that comes out: lists, tables of Arrow, or the kind that came in.
        order: the order of the records of a time: any; ``"kept"`` if those of each worker stay in order; ``"sorted"``
            if they are one batch, in the order of ``results``.
        loop: whether it stands in a loop, where each round of an epoch is an epoch of its own: it does; it is
            ``"refused"`` there; or there is ``"another"`` row for that, since this one computes with times.
        keeps: what it keeps: nothing; something of an epoch until that is complete; or something of all epochs.
        refused: calls with arguments that cannot be used.
        fails_in: the name of the operator that fails if a function raises; that of the method by default.
    """

    operator: str
    put: Callable[[tw.Stream[Any], Read], tw.Stream[Any]]
    results: Callable[[Feed], Results]
    kinds: tuple[Kind, ...] = ALL_KINDS
    name: str = ""
    gives: Literal["lists", "tables", "the same"] = "lists"
    order: Literal["any", "kept", "sorted"] = "any"
    loop: Literal["yes", "refused", "another"] = "yes"
    keeps: Literal["nothing", "an epoch", "all epochs"] = "nothing"
    refused: tuple[Callable[[tw.Stream[Any]], object], ...] = ()
    fails_in: str = ""

    def __str__(self) -> str:
        return f"{self.operator}{'-' if self.name else ''}{self.name}"

    def describe(self, stream: tw.Stream[Any], read: Read = number_of) -> tw.Stream[Any]:
        """Put the operator behind a stream of numbers."""
        return self.put(stream, read)

    def expected(self, feed: Feed) -> Bags:
        """Return the bag of plain records (see `plain`) of each time. A time without records is not in it."""
        return {time: bag for time, found in self.results(feed).items() if (bag := Counter(map(plain, found)))}

    @property
    def calls(self) -> bool:
        """Whether it calls functions of a user's."""
        return "_" not in inspect.signature(self.put).parameters


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


def each_epoch(function: Callable[[list[int]], Iterable[Any]]) -> Callable[[Feed], Results]:
    """Return what comes of a feed: what ``function`` makes of all numbers of each epoch, at that epoch."""
    return lambda feed: {time: list(function(numbers)) for time, numbers in by_time(feed).items()}


def with_earlier(function: Callable[[list[int], list[int]], Iterable[Any]]) -> Callable[[Feed], Results]:
    """Return what comes of a feed: what ``function`` makes of the numbers of all earlier epochs and those of each.

    The numbers of an epoch are in order.
    """

    def results(feed: Feed) -> Results:
        earlier: list[int] = []
        found: dict[Any, list[Any]] = {}
        for time, numbers in by_time(feed).items():
            found[time] = list(function(earlier, sorted(numbers)))
            earlier += sorted(numbers)
        return found

    return results


def by_time_of(due: Callable[[int, Any], Any]) -> Callable[[Feed], Results]:
    """Return what comes of a feed: each number, at the time that ``due`` makes of it and of its time."""

    def results(feed: Feed) -> Results:
        found: dict[Any, list[int]] = {}
        for time, numbers in feed:
            for number in numbers:
                found.setdefault(due(number, time), []).append(number)
        return found

    return results
