"""Estimates of the size of states: near the truth, from a few parts, and without a trace."""

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tidewheel.runtime.state.keyed_state import KeyedState
from tidewheel.runtime.state.operator_state import OperatorState
from tidewheel.runtime.state.state_pickling import TokenPlace
from tidewheel.runtime.state.state_sizes import StateSizes, estimated_size
from tidewheel.runtime.tokens.timestamp_token import TimestampToken


class Counted:
    """A value that counts how often its size is asked for."""

    asked = 0

    def __sizeof__(self) -> int:
        type(self).asked += 1
        return 1000


class Refusing:
    """A value whose size is not known."""

    def __sizeof__(self) -> int:
        raise OSError("no size")


class Holding:
    """A value of a class of the user's."""

    def __init__(self) -> None:
        self.text = "x" * 5000


def no_token(place: TokenPlace) -> TimestampToken:
    """Refuse to make a token, as no state has one."""
    raise AssertionError(place)


def states(count: int) -> list[OperatorState]:
    """Return the states of so many operators."""
    return [OperatorState(f"sum {number}", None, is_tracked=True, make_token=no_token) for number in range(count)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (dict.fromkeys(range(1000), "x" * 900), 1_000_000),
        (["x" * 900] * 1000, 960_000),
        (deque([b"y" * 900] * 1000), 940_000),
        ({f"{number:0900}" for number in range(1000)}, 980_000),
        (defaultdict(list, {number: [1.5] * 100 for number in range(1000)}), 3_300_000),
        (np.zeros((1000, 100)), 800_000),
        ([np.zeros(1000), np.zeros(1000)], 16_000),
        (pa.table({"n": np.zeros(100_000)}), 800_000),
        (pd.Series(np.zeros(100_000)), 800_000),
        ([Holding() for _ in range(100)], 520_000),
        ({}, 60),
        (None, 16),
    ],
)
def test_sizes_are_near_the_truth(value: Any, expected: int) -> None:
    """Of values of one kind, within a quarter."""
    assert 0.75 * expected <= estimated_size(value) <= 1.25 * expected + 100


@pytest.mark.parametrize("make", [list, set, deque, tuple])
def test_a_few_parts_are_looked_at(make: Callable[[list[Counted]], Any]) -> None:
    """So a state of a hundred thousand keys costs what one of ten does."""
    Counted.asked = 0
    size = estimated_size({key: make([Counted() for _ in range(50)]) for key in range(2000)})
    assert 2000 * 50 * 1000 < size < 2 * 2000 * 50 * 1000
    assert Counted.asked < 50


def test_a_state_by_key_does_not_count_as_read() -> None:
    """Otherwise the next snapshot would write the values that were looked at."""
    keyed = KeyedState({key: [key] for key in range(10_000)})
    keyed.cut()
    assert estimated_size(keyed) > 500_000
    assert keyed._changed == {}
    assert keyed[0] == [0]
    assert keyed._changed == {0: [0]}


def test_a_report_looks_at_some_operators() -> None:
    """One after the other; an operator counts by its keys until it is looked at again."""
    kept = states(25)
    for one in kept:
        one.keyed("counts")[0] = "x" * 10_000
    sizes = StateSizes()
    known = [len(sizes.look(kept)["state_bytes"]) for _ in range(4)]
    assert known == [10, 20, 25, 25]
    for one in kept:
        one.keyed("counts")[1] = "x" * 10_000
    assert {round(size, -4) for size in sizes.look(kept)["state_bytes"].values()} == {20_000}


def test_operators_without_state_have_no_size() -> None:
    """Nor has one whose values refuse to tell theirs; its keys are counted."""
    without, refusing = states(2)
    refusing.keyed("values")["a"] = Refusing()
    assert StateSizes().look([without, refusing]) == {"state_keys": {"sum 1": 1}, "state_bytes": {}}
