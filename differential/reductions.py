"""Reductions: functions of all values of a key, applied to all keys of one time at once.

A reduction gets the accumulated rows (index of the key, value, count), and returns the rows of the result. It loops
over keys in Python only for a user's function, or if the order of values is not the order of their codes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from reprlib import repr as short
from typing import Any, Literal, TypeAlias

import numpy as np

from tidewheel.differential.codes import Codes
from tidewheel.differential.packing import CountOverflowError, starts_of
from tidewheel.differential.records import Column, Integers, column_of, values_of
from tidewheel.differential.sums import column_means, column_sums, mean_of, sum_of

Form: TypeAlias = Literal["record", "counted", "pair"]
"""The records of a result: whole records (the keys), pairs of a whole record and a count, or pairs of key and value."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Accumulated rows with counts other than 0, sorted by the indexes of keys and then by the codes of values.

    Attributes:
        keys: the codes of the distinct keys; ``groups`` has, for each row, the index of its key.
        values: the code of each row's value; ``counts`` has its count.
    """

    keys: Integers
    groups: Integers
    values: Integers
    counts: Integers
    key_codes: Codes
    value_codes: Codes

    def positive(self) -> "Rows":
        if not len(self.counts) or self.counts.min() > 0:
            return self
        return self.take(self.counts > 0)

    def take(self, rows: Any) -> "Rows":
        return replace(self, groups=self.groups[rows], values=self.values[rows], counts=self.counts[rows])

    def in_order(self) -> "Rows":
        """Return the rows with each key's values in ascending order; the keys keep their order.

        Raises:
            TypeError: two values of a key cannot be compared.
        """
        if self.value_codes.kind in {"int", "float"}:
            return self
        values = self.value_codes.decode(self.values)[0].tolist()
        if any(map(_has_nan, values)):
            values = list(map(_ordered, values))
        order: list[int] = []
        for start, stop in self.spans():
            try:
                order += sorted(range(start, stop), key=values.__getitem__)
            except TypeError as error:
                key = self.key_codes.decode(self.keys[self.groups[start : start + 1]])[0].tolist()[0]
                raise TypeError(f"the values of key {key!r:.200} have no order, {error}: {_remedy(error)}") from error
        return self.take(np.array(order, np.int64))

    @property
    def starts(self) -> Integers:
        """The first row of each key that has rows."""
        return starts_of(self.groups)

    def spans(self) -> Iterable[tuple[int, int]]:
        starts = self.starts.tolist()
        return zip(starts, [*starts[1:], len(self.groups)], strict=False)  # no second one if there is no row


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of a result: indexes of keys, values and counts.

    ``values`` has codes of the input's values if the reduction `keeps_values`, else a column. ``is_settled`` tells for
    each key whether its result stays the same at all later times; None if unknown.
    """

    groups: Integers
    values: Column
    counts: Integers
    is_settled: "np.typing.NDArray[np.bool_] | None" = None


class Reduction(ABC):
    """A function of the values of each key.

    Attributes:
        keeps_values: whether the values of a result are among the values of the key.
        form: the form of the result's records; except for ``"pair"``, whole records are the keys.
    """

    keeps_values: bool = False
    form: Form = "pair"

    @abstractmethod
    def result(self, rows: Rows) -> Result: ...


class Threshold(Reduction):
    """Each record, with the count that a function of record and count returns; without a function, once."""

    form = "record"

    def __init__(self, function: Callable[[Any, int], int] | None = None) -> None:
        self._function = function

    def result(self, rows: Rows) -> Result:
        if self._function is None:
            rows = rows.positive()
            counts = np.ones(len(rows.groups), np.int64)
        else:
            keys = one_column(rows.key_codes.decode(rows.keys[rows.groups])).tolist()
            made = []
            for record in zip(keys, rows.counts.tolist(), strict=True):  # the report of a failure shows `record`
                made.append(self._function(*record))  # noqa: PERF401 - a comprehension has none from Python 3.12 on
            wrong = [one for one in made if not isinstance(one, int | np.integer | np.bool_)]
            if wrong:
                raise TypeError(f"the function of threshold() is to return a whole number, not {wrong[0]!r}")
            try:
                counts = np.array(made, np.int64)
            except OverflowError as error:
                large = next(key for key, one in zip(keys, made, strict=True) if not -(2**63) <= one < 2**63)
                raise CountOverflowError(short(large)) from error
        return Result(rows.groups, np.zeros(len(rows.groups), np.int64), counts)


class Count(Reduction):
    """Pairs of each record and its count."""

    form = "counted"

    def result(self, rows: Rows) -> Result:
        return Result(rows.groups, rows.counts, np.ones(len(rows.groups), np.int64))


class Extreme(Reduction):
    """The least or the greatest value of each key."""

    keeps_values = True

    def __init__(self, *, greatest: bool) -> None:
        self.greatest = greatest

    def result(self, rows: Rows) -> Result:
        rows = rows.positive().in_order()
        chosen = rows.starts
        if self.greatest:
            chosen = np.append(chosen[1:], len(rows.groups))[: len(chosen)] - 1
        return Result(rows.groups[chosen], rows.values[chosen], np.ones(len(chosen), np.int64))


class TopK(Reduction):
    """The greatest or the least values of each key; a value counts as often as its count."""

    keeps_values = True

    def __init__(self, most: int, *, greatest: bool) -> None:
        self._most = most
        self._greatest = greatest

    def result(self, rows: Rows) -> Result:
        rows = rows.positive().in_order()
        if self._greatest:
            rows = rows.take(slice(None, None, -1))
        taken = np.minimum(rows.counts, self._most)  # so that their sum stays small
        before, starts = np.cumsum(taken) - taken, rows.starts
        earlier = before - np.repeat(before[starts], np.diff(np.append(starts, len(rows.groups))))
        counts = np.clip(self._most - earlier, 0, rows.counts)
        kept = counts > 0
        return Result(rows.groups[kept], rows.values[kept], counts[kept])


class Sum(Reduction):
    """The sum or the mean of the values of each key."""

    def __init__(self, *, mean: bool) -> None:
        self._mean = mean

    def result(self, rows: Rows) -> Result:
        """Return one row for each key that has a value; raise TypeError if its values cannot be added."""
        values, starts = rows.value_codes.decode(rows.values)[0], rows.starts
        groups = rows.groups[starts]
        if not len(starts):
            return Result(groups, values[:0], groups)
        if values.dtype.kind not in "if":
            return self._of_objects(rows, values.tolist())
        if self._mean:
            made, kept = column_means(values, rows.counts, starts)
            groups = groups[kept]
        else:
            made = column_sums(values, rows.counts, starts)
        made = column_of(made.tolist()) if made.dtype.kind == "O" else made
        return Result(groups, made, np.ones(len(groups), np.int64))

    def _of_objects(self, rows: Rows, values: list[Any]) -> Result:
        keys, counts = rows.key_codes.decode(rows.keys)[0].tolist(), rows.counts.tolist()
        groups, made = list[int](), list[Any]()
        for start, stop in rows.spans():
            group, often = int(rows.groups[start]), counts[start:stop]
            record = keys[group], values[start:stop]  # errors show `record`
            try:
                if not self._mean:
                    made.append(sum_of(record[1], often))
                elif total := sum(often):
                    made.append(mean_of(record[1], often, total))
                else:
                    continue
            except TypeError as error:
                raise TypeError(f"the values of a key cannot be added up, {error}: {_remedy(error)}") from error
            groups.append(group)
        return Result(np.array(groups, np.int64), column_of(made), np.ones(len(groups), np.int64))


class Grouped(Reduction):
    """All values that ``function(key, values)``, a user's function, returns for each key."""

    def __init__(self, function: Callable[[Any, list[Any]], Iterable[Any]]) -> None:
        self._function = function

    def result(self, rows: Rows) -> Result:
        rows = rows.positive()
        keys = rows.key_codes.decode(rows.keys)[0].tolist()
        values = rows.value_codes.decode(np.repeat(rows.values, rows.counts))[0].tolist()
        ends = np.cumsum(rows.counts).tolist()
        groups: list[int] = []
        found: list[Any] = []
        begin = 0
        for start, stop in rows.spans():
            group, end = int(rows.groups[start]), ends[stop - 1]
            record = keys[group], values[begin:end]  # errors show `record`
            made = self._function(*record)
            if isinstance(made, str | bytes | dict) or not hasattr(made, "__iter__"):
                raise TypeError(f"the function of reduce() is to return a list of results, [result], not {made!r:.200}")
            groups += [group] * len(made := [*made])
            found += made
            begin = end
        return Result(np.array(groups, np.int64), column_of(found), np.ones(len(groups), np.int64))


def one_column(columns: list[Column]) -> Column:
    """Return the records in one column; pairs become tuples."""
    if len(columns) == 1:
        return columns[0]
    return np.fromiter(zip(*map(values_of, columns), strict=True), object, len(columns[0]))


def _remedy(error: TypeError) -> str:
    if "NoneType" in str(error):
        return "leave out nulls before, such as with filter(pc.field('price').is_valid()), or choose other columns"
    return "give the values of a key one type before, such as with map()"


def _has_nan(value: Any) -> bool:
    return any(map(_has_nan, value)) if type(value) is tuple else type(value) is float and value != value  # noqa: PLR0124


def _ordered(value: Any) -> Any:
    """Return the sort key of a value: NaN is greater than all numbers, also within tuples.

    All NaN are equal, so that later columns decide between rows with NaN.
    """
    if type(value) is tuple:
        return list(map(_ordered, value))  # a list cannot be compared with the pair of another value
    return (True, None) if _has_nan(value) else (False, value)
