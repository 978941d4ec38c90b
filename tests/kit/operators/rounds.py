"""Rows of the table of operators within a loop."""

from dataclasses import replace
from typing import Any

import tidewheel as tw
from tests.kit.operators.harness import Feed
from tests.kit.operators.operator_case import OperatorCase, Read, Results, number_of
from tests.kit.operators.operator_table import TABLE


def is_odd(number: int) -> bool:
    return number % 2 == 1


def nothing_of(batch: Any) -> Any:
    return batch[:0]


def in_a_loop(case: OperatorCase) -> OperatorCase:
    """Return a row of the same operator in a loop. Odd numbers go round once more.

    Each round of an epoch is an epoch of its own, and all rounds of an epoch come before the next. The operator is on
    the way back to the beginning of the loop, so it must let rounds go on.
    """

    def put(stream: tw.Stream[Any], read: Read) -> tw.Stream[Any]:
        made = []

        def body(inner: tw.Stream[Any]) -> tw.Stream[Any]:
            made.append(case.describe(inner, read))
            again = inner.filter(lambda record: is_odd(number_of(record)))
            return again.concat(made[0].map_batches(nothing_of))

        stream.iterate(body, "round", rounds=2)
        return made[0]

    def results(feed: Feed) -> Results:
        rounds: list[tuple[Any, list[int]]] = []
        for time, numbers in feed:
            rounds += [((time, 0), numbers), ((time, 1), list(filter(is_odd, numbers)))]
        return case.results(rounds)

    return replace(case, put=put, results=results, name=f"{case.name} in a loop".strip())


IN_LOOPS = [in_a_loop(case) for case in TABLE if case.loop == "yes"]
