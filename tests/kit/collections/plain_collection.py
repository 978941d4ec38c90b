"""A collection of plain Python, with the operators of `tidewheel.Collection`: the oracle of its laws.

It has the records of one epoch, with their counts, and computes everything anew.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MOST_ROUNDS = 1000


@dataclass(slots=True)
class Loop:
    """A loop whose body is being called: the round, and the latest one in which a record enters."""

    round: int = 0
    latest: int = 0


_LOOPS: list[Loop] = []
"""The loops whose bodies are being called, the innermost last."""


class PlainCollection:
    """Records with counts, none of them 0."""

    def __init__(self, counts: Mapping[Any, int]) -> None:
        self.counts = {record: count for record, count in counts.items() if count}

    def _made(self, pairs: Iterable[tuple[Any, int]]) -> "PlainCollection":
        counts: Counter[Any] = Counter()
        for record, count in pairs:
            counts[record] += count
        return PlainCollection(counts)

    def _items(self) -> Iterable[tuple[Any, int]]:
        return self.counts.items()

    def map(self, function: Callable[..., Any], *, columns: bool = False) -> "PlainCollection":
        call: Callable[[Any], Any] = (lambda record: function(*record)) if columns else function
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
        return self.reduce(lambda key, values: [min(values)])

    def reduce_max(self) -> "PlainCollection":
        return self.reduce(lambda key, values: [max(values)])

    def reduce_sum(self) -> "PlainCollection":
        return self._made(((key, sum(v * n for v, n in found)), 1) for key, found in self._groups(None))

    def reduce_mean(self) -> "PlainCollection":
        totals = ((key, found, sum(n for _, n in found)) for key, found in self._groups(None))
        return self._made(((key, sum(v * n for v, n in found) / total), 1) for key, found, total in totals if total)

    def top_k(self, most: int, *, greatest: bool = True) -> "PlainCollection":
        return self.reduce(lambda key, values: sorted(values, reverse=greatest)[:most])

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
