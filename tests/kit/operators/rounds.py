"""Rows of the table of operators within a loop."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import tidewheel as tw
from tests.kit.operators.harness import KINDS, Feed
from tests.kit.operators.operator_case import OperatorCase, Read, Results, number_of
from tests.kit.operators.operator_table import TABLE
from tidewheel.batches.batches import records


def halves(numbers: Iterable[int]) -> list[int]:
    """Return what goes round once more of some numbers."""
    return [number // 2 for number in numbers if number > 3]


def halves_of(batch: Any) -> Any:
    """Return what goes round once more of a batch, as a batch of its kind."""
    kind = next(kind for kind in KINDS if isinstance(batch, type(kind.make([]))))
    return kind.make(halves(map(number_of, records(batch))))


def nothing_of(batch: Any) -> Any:
    return batch[:0]


def in_a_loop(case: OperatorCase) -> OperatorCase:
    """Return a row of the same operator in a loop. Halves of numbers go round once more.

    Each round of an epoch is an epoch of its own, and all rounds of an epoch come before the next. The operator is on
    the way back to the beginning of the loop, so it must let rounds go on.
    """

    def put(stream: tw.Stream[Any], read: Read) -> tw.Stream[Any]:
        made = []

        def body(inner: tw.Stream[Any]) -> tw.Stream[Any]:
            made.append(case.describe(inner, read))
            return inner.map_batches(halves_of).concat(made[0].map_batches(nothing_of))

        stream.iterate(body, name="round", max_rounds=2)
        return made[0]

    def results(feed: Feed) -> Results:
        rounds: list[tuple[Any, list[int]]] = []
        for time, numbers in feed:
            rounds += [((time, 0), numbers), ((time, 1), halves(numbers))]
        return case.results(rounds)

    return replace(case, put=put, results=results, name=f"{case.name} in a loop".strip())


IN_LOOPS = [in_a_loop(case) for case in TABLE if case.loop == "yes"]
