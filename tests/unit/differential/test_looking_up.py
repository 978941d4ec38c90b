"""Look-ups as of an epoch: the sum of all changes up to it, however they were merged and divided."""

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.kit.messages import raises
from tidewheel.differential import spine
from tidewheel.differential.looking_up import Found, look_up
from tidewheel.differential.records import Array, encode
from tidewheel.differential.shared_arrangement import SharedArrangement
from tidewheel.differential.updates import FlatTime
from tidewheel.operators.collections.pacts import owners_of_columns

KINDS: dict[str, list[Any]] = {
    "int": [0, 3, -(2**63), 2**40],
    "float": [0.5, -2.25, float("inf"), 3.0],
    "text": ["a", "b", ("c", 1), None],
    "mixed": [1, "b", 2.5, (3, 4)],
}


class State:
    """An arrangement with one reader."""

    def __init__(self, arrangement: SharedArrangement | None = None) -> None:
        self.arrangement = arrangement or SharedArrangement(1, "look-up")
        self.let_go(0)

    @property
    def since(self) -> int:
        return self.arrangement.since[0]

    def receive(self, time: FlatTime, array: Array) -> None:
        number = self.arrangement.receive(0, time, [array])
        if number is not None:
            self.arrangement.take("look-up", number)

    def let_go(self, since: int) -> None:
        self.arrangement.let_go("look-up", (since,))

    def read(self, keys: list[Any], time: int) -> list[Found]:
        return look_up(self.arrangement, "look-up", keys, time)

    def divided(self, workers: int) -> "list[State]":
        shares = self.arrangement.divided(owners_of_columns, workers, lambda: SharedArrangement(1, "look-up"))
        return [State(share) for share in shares]

    def add(self, other: "State") -> "State":
        self.arrangement.add(other.arrangement)
        return self


def make() -> State:
    return State()


def found(state: State, keys: list[Any], time: int) -> list[dict[Any, int]]:
    return [dict(one) for one in state.read(keys, time)]


class History:
    """Random changes, and what plain Python makes of them."""

    def __init__(self, seed: int, keys: list[Any]) -> None:
        self.random = Random(seed)
        self.keys = keys
        self.changes: list[tuple[int, Any, int]] = []

    def change(self, state: State, time: int) -> None:
        """Add some changes at a time, and remove others."""
        records = [(self.random.choice(self.keys), self.random.randrange(3)) for _ in range(self.random.randint(1, 9))]
        counts = [self.random.choice((1, 1, 2, -1)) for _ in records]
        state.receive((time,), encode(records, counts))
        self.changes += [(time, record, count) for record, count in zip(records, counts, strict=True)]

    def at(self, time: int) -> list[dict[Any, int]]:
        """Return the values of each key as of a time."""
        sums: Counter[Any] = Counter()
        for at, record, count in self.changes:
            sums[record] += count * (at <= time)
        return [{value: n for (one, value), n in sums.items() if one == key and n} for key in self.keys]


@pytest.mark.parametrize("small", [1, 2048])
@pytest.mark.parametrize("kind", KINDS)
def test_it_has_each_epoch_from_since_on(kind: str, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of later epochs come before those of earlier ones, and batches are merged."""
    monkeypatch.setattr(spine, "_SMALL", small)
    for seed in range(10):
        state, history = make(), History(seed, KINDS[kind])
        for epoch in range(12):
            history.change(state, epoch + history.random.randrange(3))
            if history.random.random() < 0.5:
                state.let_go(max(state.since, epoch))
            for time in range(state.since, epoch + 3):
                assert found(state, history.keys, time) == history.at(time), f"seed {seed}, epoch {epoch}"


def test_keys_that_are_nowhere_have_nothing_and_change_nothing() -> None:
    """A key of another type does not turn the codes of all keys into those of objects."""
    state = make()
    state.receive((0,), encode([(1, "one"), (2, "two")]))
    nowhere = [3, "1", 1.5, 2**70, None, (1, 2), float("nan")]
    assert found(state, [1, *nowhere, 2, 1.0, True, np.int64(2)], 0) == [
        {"one": 1},
        *[{} for _ in nowhere],
        {"two": 1},
        {"one": 1},
        {"one": 1},
        {"two": 1},
    ]
    assert state.arrangement.keys.kind == "int"
    assert found(make(), [1, "a"], 0) == [{}, {}], "nothing has come"


def test_not_a_number_is_found() -> None:
    """Each NaN is the same key, in a column of floats and of objects."""
    for others in ([0.5], ["a"]):
        state = make()
        state.receive((0,), encode([(float("nan"), 1), *((other, 2) for other in others)]))
        assert found(state, [float("nan"), *others], 0) == [{1: 1}, {2: 1}]


def test_another_number_of_workers_has_the_same_history() -> None:
    """All of it from the latest epoch on at which the history of one of the workers began, and nothing before."""
    for seed in range(10):
        random = Random(seed)
        old = [make() for _ in range(3)]
        keys = list(range(20))
        history = History(seed, keys)
        for epoch in range(8):
            whole = make()
            history.change(whole, epoch)
            for state, share in zip(old, whole.divided(3), strict=True):
                state.add(share)
        for state in old:
            state.let_go(random.randrange(4))
        parts = [state.divided(2) for state in old]
        new = [parts[0][worker].add(parts[1][worker]).add(parts[2][worker]) for worker in range(2)]
        assert {state.since for state in new} == {max(state.since for state in old)}, f"seed {seed}"
        owners = owners_of_columns([np.array(keys)], 2).tolist()
        for time in range(new[0].since, 9):
            read = [found(new[owner], [key], time)[0] for key, owner in zip(keys, owners, strict=True)]
            assert read == history.at(time), f"seed {seed}, epoch {time}"


def test_records_that_are_no_pairs_are_refused() -> None:
    with raises(TypeError):
        make().receive((0,), encode([7]))


def test_interned_values_that_are_gone_are_forgotten() -> None:
    """Memory follows the size of the collection, and not the length of its history."""
    state = make()
    for epoch in range(40):
        records = [(f"key {epoch} {number}", f"{number}") for number in range(200)]
        state.receive((epoch,), encode(records))
        state.receive((epoch + 1,), encode(records, [-1] * 200))
        state.let_go(epoch)
    assert len(state.arrangement.keys) < 4000
