"""A collection of plain Python, with the operators of `tidewheel.Collection`: the oracle of its laws.

It has the records of one epoch, with their counts, and computes everything anew. Sums are exact: those of floats are
fractions until the end. NaN is one value, greater than all other numbers.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tidewheel.batches.one_nan import with_one_nan

MOST_ROUNDS = 1000


@dataclass(slots=True)
class Loop:
    """A loop whose body is being called: the round, and the latest one in which a record enters."""

    round: int = 0
    latest: int = 0


_LOOPS: list[Loop] = []
"""The loops whose bodies are being called, the innermost last."""


def _folded(made: Any) -> Any:
    """Return the record of some columns: of more than two those behind the key make a tuple."""
    return (made[0], made[1:]) if isinstance(made, tuple) and len(made) > 2 else made


def in_order(value: Any) -> Any:
    """Return what stands for a value in comparisons, with NaN behind all other numbers."""
    if isinstance(value, tuple):
        return list(map(in_order, value))  # which cannot be compared with the pair of another value
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0 if is_nan else value


def _first(found: Sequence[tuple[Any, int]], most: int, greatest: bool) -> Iterator[tuple[Any, int]]:
    for value, count in sorted(found, key=lambda item: in_order(item[0]), reverse=greatest):
        yield value, min(count, most)
        most -= min(count, most)


def exact_sum(found: Sequence[tuple[Any, int]]) -> Any:
    """Return the sum of numbers with counts: a whole number if all are whole, else the float next to it."""
    for value, _ in found:
        if not isinstance(value, int | float):
            raise TypeError(f"{value!r} is no number")
    endless = {value * count for value, count in found if not math.isfinite(value)}
    if endless:
        return endless.pop() if len(endless) == 1 else math.nan
    exact = sum((Fraction(value) * count for value, count in found), Fraction())
    return int(exact) if all(Fraction(value).denominator == 1 for value, _ in found) else nearest(exact)


def exact_mean(found: Sequence[tuple[Any, int]], total: int) -> Any:
    """Return the mean of numbers with counts that have this total."""
    made = exact_sum(found)
    if math.isfinite(made) or not all(map(math.isfinite, (value for value, _ in found))):
        return made / total
    return nearest(sum((Fraction(value) * count for value, count in found), Fraction()) / total)


def nearest(exact: Fraction) -> float:
    """Return the float next to a number."""
    try:
        return float(exact)
    except OverflowError:
        return -math.inf if exact < 0 else math.inf


class PlainCollection:
    """Records with counts, none of them 0."""

    def __init__(self, counts: Mapping[Any, int]) -> None:
        self.counts = {record: count for record, count in counts.items() if count}

    def _made(self, pairs: Iterable[tuple[Any, int]]) -> "PlainCollection":
        counts: Counter[Any] = Counter()
        for record, count in pairs:
            counts[with_one_nan(record)] += count
        return PlainCollection(counts)

    def _items(self) -> Iterable[tuple[Any, int]]:
        return self.counts.items()

    def map(self, function: Callable[..., Any], *, columns: bool | Sequence[str] = False) -> "PlainCollection":
        call: Callable[[Any], Any] = (lambda record: _folded(function(*record))) if columns else function
        return self._made((call(record), count) for record, count in self._items())

    def filter(self, predicate: Callable[..., object], *, columns: bool = False) -> "PlainCollection":
        call: Callable[[Any], object] = (lambda record: predicate(*record)) if columns else predicate
        return self._made(item for item in self._items() if call(item[0]))

    def flat_map(self, function: Callable[[Any], Iterable[Any]]) -> "PlainCollection":
        return self._made((made, count) for record, count in self._items() for made in function(record))

    def concat(self, *others: "PlainCollection") -> "PlainCollection":
        return self._made(item for one in (self, *others) for item in one._items())

    def negate(self) -> "PlainCollection":
        return self._made((record, -count) for record, count in self._items())

    def empty(self) -> "PlainCollection":
        return PlainCollection({})

    def enter_at(self, function: Callable[..., int], *, columns: bool = False) -> "PlainCollection":
        call: Callable[[Any], int] = (lambda record: function(*record)) if columns else function
        loop = _LOOPS[-1]
        loop.latest = max([loop.latest, *map(call, self.counts)])
        return self._made(item for item in self._items() if call(item[0]) <= loop.round)

    def consolidate(self) -> "PlainCollection":
        return self

    def join(
        self, other: "PlainCollection", function: Callable[[Any, Any, Any], Any] | None = None, *, columns: bool = False
    ) -> "PlainCollection":
        call = function or (lambda key, left, right: (key, (left, right)))
        return self._made(
            (call(key, left, right), one * two)
            for (key, left), one in self._items()
            for (also, right), two in other._items()
            if key == also
        )

    def semijoin(self, keys: "PlainCollection") -> "PlainCollection":
        known = keys.distinct().counts
        return self._made(item for item in self._items() if item[0][0] in known)

    def antijoin(self, keys: "PlainCollection") -> "PlainCollection":
        return self.concat(self.semijoin(keys).negate())

    def distinct(self) -> "PlainCollection":
        return self._made((record, 1) for record, count in self._items() if count > 0)

    def threshold(self, function: Callable[[Any, int], int]) -> "PlainCollection":
        return self._made((record, function(record, count)) for record, count in self._items())

    def count(self) -> "PlainCollection":
        return self._made((item, 1) for item in self._items())

    def _groups(self, least: int | None = 1) -> Iterator[tuple[Any, list[tuple[Any, int]]]]:
        groups: dict[Any, list[tuple[Any, int]]] = defaultdict(list)
        for (key, value), count in self._items():
            if least is None or count >= least:
                groups[key].append((value, count))
        yield from groups.items()

    def reduce(self, function: Callable[[Any, list[Any]], Iterable[Any]]) -> "PlainCollection":
        return self._made(
            ((key, result), 1)
            for key, found in self._groups()
            for result in function(key, [value for value, count in found for _ in range(count)])
        )

    def reduce_min(self) -> "PlainCollection":
        return self.top_k(1, greatest=False)

    def reduce_max(self) -> "PlainCollection":
        return self.top_k(1)

    def reduce_sum(self) -> "PlainCollection":
        return self._made(((key, exact_sum(found)), 1) for key, found in self._groups(None))

    def reduce_mean(self) -> "PlainCollection":
        totals = ((key, found, sum(n for _, n in found)) for key, found in self._groups(None))
        return self._made(((key, exact_mean(found, total)), 1) for key, found, total in totals if total)

    def top_k(self, k: int, *, greatest: bool = True) -> "PlainCollection":
        return self._made(
            ((key, value), count) for key, found in self._groups() for value, count in _first(found, k, greatest)
        )

    def iterate(self, body: Callable[..., Any], *others: "PlainCollection", max_rounds: int | None = None) -> Any:
        values: tuple[PlainCollection, ...] = (self, *others)
        loop = Loop()
        for loop.round in range(max_rounds or MOST_ROUNDS):
            _LOOPS.append(loop)
            made = body(*values)
            _LOOPS.pop()
            new = tuple(made) if others else (made,)
            is_same = all(one.counts == two.counts for one, two in zip(new, values, strict=True))
            if is_same and loop.round >= loop.latest:
                break
            values = new
        else:
            assert max_rounds, "the program has no fixed point"
        return values if others else values[0]
