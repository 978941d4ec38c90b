"""Operators that send each record, or each batch, on one of several outputs."""

from collections.abc import Callable, Sequence
from itertools import compress
from operator import index
from reprlib import repr as shortened
from typing import Any, TypeAlias

from tidewheel.operators.records.parts import divide
from tidewheel.progress import Time
from tidewheel.runtime import Build, InputPort, OutputPort
from tidewheel.transport.batches import records

Assign: TypeAlias = Callable[[list[Any]], Sequence[int]]
"""Says for each of some records by which output it leaves."""


def build_divide(assign: Assign, outputs: int) -> Build:
    """Return the build function of an operator that sends each record by the one output that ``assign`` says."""

    def schedule(input: InputPort, *ports: OutputPort) -> None:
        for lent, batch in input:
            for port, part in zip(ports, divide(batch, assign(records(batch)), outputs), strict=True):
                if part is not None:
                    port.send(lent, part)

    return lambda context: schedule


def first_match(predicates: Sequence[Callable[[Any], object]]) -> Assign:
    """Return a function that says for each record which predicate, by its number, is the first that is true for it.

    Where none is true, that is how many there are. None is called for records that an earlier one is true for.

    >>> first_match([lambda n: n < 3, lambda n: n < 6])([1, 5, 9, 2])
    [0, 1, 2, 0]
    """

    def assign(rows: list[Any]) -> list[int]:
        return _first_match(predicates, rows)

    return assign


def _first_match(predicates: Sequence[Callable[[Any], object]], rows: list[Any]) -> list[int]:
    predicate, *others = predicates
    owners = [0 if predicate(record) else 1 for record in rows]
    if not others:
        return owners
    later = iter(_first_match(others, list(compress(rows, owners))))
    return [1 + next(later) if owner else 0 for owner in owners]


def by_number(parts: int, function: Callable[[Any], int]) -> Assign:
    """Return a function that says ``function(record)`` for each record; it raises ValueError where that is no part."""
    allowed = frozenset(range(parts))

    def assign(rows: list[Any]) -> Sequence[int]:
        numbers = [function(record) for record in rows]
        try:
            if allowed.issuperset(map(index, numbers)):
                return numbers
        except TypeError:
            pass  # one of them is no integer
        number, record = next(pair for pair in zip(numbers, rows, strict=True) if not _is_one_of(pair[0], parts))
        raise ValueError(
            f"the function of partition({parts}, ...) returned {number!r} for {shortened(record)}: it returns one of "
            f"the numbers 0 to {parts - 1}"
        )

    return assign


def _is_one_of(number: object, parts: int) -> bool:
    return hasattr(number, "__index__") and 0 <= index(number) < parts


def build_branch_when(predicate: Callable[[Time], object]) -> Build:
    """Return the build function of an operator that sends each batch by its first output if ``predicate(time)``."""

    def schedule(input: InputPort, matching: OutputPort, rest: OutputPort) -> None:
        for lent, batch in input:
            (matching if predicate(lent.time) else rest).send(lent, batch)

    return lambda context: schedule
