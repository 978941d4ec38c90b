"""The test of a round by itself: what its records measure, what all of them measure together, and who goes on."""

import math
from operator import add
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from tests.kit.messages import raises
from tidewheel.operators.keys.record_keys import Keys
from tidewheel.operators.records.round_test import RoundTest
from tidewheel.runtime.tokens.timestamp_token import TimestampToken


class Token:
    """What a test of a round sees of a token."""

    def __init__(self, time: Any) -> None:
        self.time = time


def round_test(measure: Any = "n", combine: Any = add, rounds: int | None = None) -> RoundTest:
    return RoundTest(lambda total: total < 1, Keys(measure), combine, rounds)


def sent(test: RoundTest, batches: list[list[Any]], number: int) -> list[list[Any]]:
    """Return what a worker sends of a round."""
    return [list(part) for part in test.send(None, batches, cast(TimestampToken, Token((7, number))))]


@pytest.mark.parametrize(
    "batch",
    [
        [{"n": 1}, {"n": 2}],
        pa.table({"n": [1, 2]}),
        pa.record_batch({"n": [1.0, 2.0]}),
        pa.table({"n": pa.chunked_array([[1.0], [2.0]])}),
        np.array([(1,), (2,)], dtype=[("n", int)]),
    ],
)
def test_a_column_is_measured_in_any_kind_of_batch(batch: Any) -> None:
    """A name finds the field of a dict, the column of a table and the field of an array."""
    assert round_test().measured(batch) == [3]
    assert round_test(lambda record: 2).measured(batch) == [4]
    assert round_test(combine=max).measured(batch) == [2]


def test_sums_of_whole_numbers_are_exact() -> None:
    """They do not start again from below at 2**63, as Arrow's do."""
    assert round_test().measured(pa.table({"n": [2**62] * 4})) == [2**64]


def test_what_is_not_a_number_is_not_passed_over() -> None:
    """A mean change that is NaN or null is no small one."""
    assert math.isnan(round_test().measured(pa.table({"n": [1.0, math.nan]}))[0])
    for kind in (pa.float64(), pa.int64()):
        with pytest.raises(TypeError):
            round_test().verdict(round_test().measured(pa.table({"n": pa.array([1, None], kind)})))


def test_all_that_was_measured_is_combined() -> None:
    """Of several batches and workers; what comes to None is an error."""
    assert round_test().combined([], [1]) == [1]
    assert round_test().combined([1], [2, 3]) == [6]
    with raises(TypeError):
        round_test(combine=lambda one, other: None).combined([1], [2])


@pytest.mark.parametrize(
    ("verdict", "number", "goes_on"), [(False, 0, True), (True, 0, False), (False, 3, True), (False, 4, False)]
)
def test_records_go_on_or_leave_together(verdict: bool, number: int, goes_on: bool) -> None:
    """By the verdict or the number of rounds; what is beside them goes round with them, or is dropped."""
    records, beside = [["a"], ["b"]], [["c"]]
    expected = [records, [], beside] if goes_on else [[], records, []]
    assert sent(round_test(rounds=5), [records, [[verdict]], beside], number) == expected


def test_without_records_anywhere_nothing_goes_on() -> None:
    """No worker has measured anything then, so there is no verdict."""
    assert sent(round_test(), [[], [], [["c"]]], 0) == [[], [], []]
