"""An arrangement is what each of its readers has received of it, and is kept as long as one of them needs it."""

import pickle
from typing import Any

import numpy as np
import pytest

from tidewheel.differential import spine
from tidewheel.differential.records import Column, encode
from tidewheel.differential.shared_arrangement import MAIN, Number, SharedArrangement


def arrangement(*readers: str) -> SharedArrangement:
    made = SharedArrangement(1, "test")
    for reader in readers:
        made.let_go(reader, (0,))
    return made


def arrange(made: SharedArrangement, epoch: int, pairs: list[Any], count: int = 1) -> Number:
    number = made.receive(0, (epoch,), [encode(pairs, [count] * len(pairs))])
    assert number is not None
    return number


def taken_keys(made: SharedArrangement, reader: str, number: Number) -> list[Any]:
    """Return the keys of updates that a reader receives."""
    (batch,) = made.take(reader, number)
    return list(made.keys_of(batch.keys))


def seen(made: SharedArrangement, reader: str, key: Any) -> list[Any]:
    """Return the values that a reader sees of a key."""
    _, codes = made.find_keys(encode([key])["key"])
    return sorted(made.values_of(made.look_up(reader, codes).values).tolist())


def test_a_reader_sees_what_it_has_received() -> None:
    """In any order, and nothing twice."""
    made = arrangement("one", "other")
    first, second = arrange(made, 0, [("a", 1)]), arrange(made, 0, [("a", 2)])
    assert made.is_empty("one")
    assert len(made.take("one", second)) == 1
    assert (made.is_empty("one"), made.is_empty("other")) == (False, True)
    assert (seen(made, "one", "a"), seen(made, "other", "a")) == ([2], [])
    assert len(made.take("one", second)) == 0
    made.take("other", second)
    made.take("other", first)
    assert (seen(made, "one", "a"), seen(made, "other", "a")) == ([2], [1, 2])
    assert list(made.spines) == [MAIN, first]
    made.take("one", first)
    assert list(made.spines) == [MAIN]
    assert seen(made, "one", "a") == [1, 2]


def test_updates_that_come_to_nothing_have_no_number() -> None:
    """Nobody is told of them."""
    made = arrangement("one")
    assert made.receive(0, (0,), [encode([(1, 2)]), encode([(1, 2)], [-1])]) is None
    assert list(made.spines) == [MAIN]


def test_it_is_compacted_as_far_as_all_readers_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slowest counts, unless it needs nothing any more; of its times only the outer coordinate."""
    monkeypatch.setattr(spine, "_SMALL", 0)
    made = arrangement("slow", "fast")
    for epoch in range(200):
        for later, count in enumerate((1, -1)):
            number = arrange(made, epoch + later, [(f"key {epoch}", "value")], count)
            made.take("slow", number)
            made.take("fast", number)
        made.let_go("fast", (epoch,))
        made.let_go("slow", (0, 7))
    assert len(made.spines[MAIN]) == 400
    made.let_go("slow", None)
    made.let_go("fast", (201,))
    number = arrange(made, 201, [(key, "value") for key in range(1000)])
    made.take("slow", number)
    made.take("fast", number)
    made.spines[MAIN].total()
    assert len(made.spines[MAIN]) == 1000
    made.let_go("fast", None)
    assert len(made.spines[MAIN]) == 0


def test_keys_out_of_use_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of updates that a reader has not received are in use."""
    monkeypatch.setattr(spine, "_SMALL", 0)
    made = arrangement("one")
    late = arrange(made, 0, [("late", "value")])
    for epoch in range(1500):
        made.let_go("one", (epoch,))
        for count in (1, -1):
            made.take("one", arrange(made, epoch, [(f"key {epoch}", "value")], count))
    assert len(made.keys) < 1100
    assert taken_keys(made, "one", late) == ["late"]


def owners(columns: Any, workers: int) -> Column:
    return np.asarray(columns[0] % workers)


def test_another_number_of_workers_divides_it() -> None:
    """What a reader has not received stays so, on each worker that has some of it; a program may have other readers."""
    made = arrangement("one", "other", "gone")
    number = arrange(made, 0, [(key, key) for key in range(4)])
    arrange(made, 0, [(2, 5)])
    made.take("one", number)
    first, second = pickle.loads(pickle.dumps(made)).divided(owners, 2, lambda: SharedArrangement(1, "test"))
    beside = SharedArrangement(1, "test")
    for one in (first, second, beside):
        for reader in ("one", "other"):
            one.let_go(reader, (0,))
    first.add(beside)
    assert [seen(one, "one", key) for one, key in ((first, 0), (second, 1), (second, 0))] == [[0], [1], []]
    assert seen(first, "other", 0) == []
    assert taken_keys(first, "other", number) == [0, 2]
    assert taken_keys(second, "other", number) == [1, 3]
    assert list(second.spines) == [MAIN]
    assert seen(first, "other", 2) == [2]
    assert arrange(first, 1, [(0, 0)]) not in {number, (0, 1)}


def test_a_reader_may_have_received_what_one_of_the_workers_had() -> None:
    """Where these have one number, and another number of workers goes on, it receives the others'."""
    made = arrangement("one", "other")
    number = arrange(made, 0, [(key, 0) for key in range(4)])
    parts = made.divided(owners, 4, lambda: SharedArrangement(1, "test"))
    for part in parts:
        for reader in ("one", "other"):
            part.let_go(reader, (0,))
    assert len(parts[1].take("one", number)) == len(parts[2].take("other", number)) == 1
    again = arrangement("one", "other")
    for part in pickle.loads(pickle.dumps(parts)):
        again.add(part)
    assert [seen(again, "one", key) for key in range(4)] == [[], [0], [], []]
    (found,) = pickle.loads(pickle.dumps(again)).divided(owners, 1, lambda: SharedArrangement(1, "test"))
    for reader in ("one", "other"):
        found.let_go(reader, (0,))
    for reader, others in (("one", {0, 2, 3}), ("other", {0, 1, 3})):
        assert {key for batch in found.take(reader, number) for key in found.keys_of(batch.keys)} == others
        assert found.take(reader, number) == []
        assert [seen(found, reader, key) for key in range(4)] == [[0]] * 4
