"""A dict that knows which of its keys have changed: what its cuts write is, in the end, exactly what it has."""

import pickle
import sys
import tracemalloc
from collections.abc import Callable
from copy import copy, deepcopy
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.messages import raises
from tidewheel.runtime.state import keyed_state
from tidewheel.runtime.state.keyed_state import GoneKeys, KeyedChanges, KeyedCut, KeyedState, entries_of

MANY = 100_000
MOST_MEMORY = 1.3


class Written:
    """What the cuts of a state have written, and which of them are still needed."""

    def __init__(self) -> None:
        self.cuts: list[KeyedCut] = []
        self._sweep = self._needed = 0

    def add(self, cut: KeyedCut) -> None:
        """Write a cut."""
        self.cuts.append(cut._replace(unchanging=list(cut.unchanging)))
        if cut.begins:
            self._sweep = len(self.cuts) - 1
        if cut.ends:
            self._needed = self._sweep

    def entries(self) -> dict[Any, Any]:
        """Return what is found in the cuts from the begin of the last sweep that has ended."""
        changes: KeyedChanges = []
        for cut in self.cuts[self._needed :]:
            changes += map(pickle.dumps, cut.unchanging)
            if cut.pickled is not None:
                changes.append(cut.pickled.data)
            changes.append(GoneKeys(list(cut.gone)))
        return entries_of(changes, pickle.loads)


@pytest.fixture
def small_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let states of a few keys be written in several cuts."""
    use_small_sweeps(monkeypatch)


def use_small_sweeps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(keyed_state, "_LEAST_SWEPT", 3)


def pairs_in(cut: KeyedCut) -> list[tuple[Any, Any]]:
    return [pair for keys, values in cut.unchanging for pair in zip(keys, values, strict=True)]


def deep(value: Any) -> Any:
    return deepcopy(value)


def add_in_place(value: Any) -> None:
    """Change a value in place, if that is possible: also inside of a tuple."""
    for part in value if isinstance(value, tuple) else (value,):
        if isinstance(part, list):
            part.append(len(part))


def pairs_of(key: Any, value: Any) -> dict[Any, Any]:
    return {key: value, key + 1: deep(value)}


def popped(state: dict[Any, Any], key: Any) -> None:
    if state:
        add_in_place(state.popitem()[1])


def change_first(state: dict[Any, Any], values: Any) -> None:
    for value in values:
        add_in_place(value)
        break


def set_by_or(state: dict[Any, Any], key: Any, value: Any) -> None:
    state |= pairs_of(key, value)


def set_by_or_of_pairs(state: dict[Any, Any], key: Any, value: Any) -> None:
    state |= [(key, value)]


def match_in_place(state: dict[Any, Any], key: Any, value: Any) -> None:
    match state:
        case {1: found}:
            add_in_place(found)


def delete_some(state: dict[Any, Any], key: Any, value: Any) -> None:
    for found in list(state):
        if found % 3 == key % 3:
            del state[found]


CHANGES: dict[str, Callable[[dict[Any, Any], Any, Any], object]] = {
    "set": lambda state, key, value: state.__setitem__(key, value),
    "delete": lambda state, key, value: state.__delitem__(key) if key in state else None,
    "get item": lambda state, key, value: add_in_place(state[key]) if key in state else None,
    "get": lambda state, key, value: add_in_place(state.get(key)),
    "get with default": lambda state, key, value: add_in_place(state.get(key, [])),
    "set default": lambda state, key, value: add_in_place(state.setdefault(key, value)),
    "pop": lambda state, key, value: state.pop(key) if key in state else None,
    "pop with default": lambda state, key, value: state.pop(key, None),
    "pop item": lambda state, key, value: popped(state, key),
    "clear": lambda state, key, value: state.clear(),
    "update": lambda state, key, value: state.update(pairs_of(key, value)),
    "update by pairs": lambda state, key, value: state.update([(key, value)]),
    "or": set_by_or,
    "or of pairs": set_by_or_of_pairs,
    "values": lambda state, key, value: change_first(state, state.values()),
    "items": lambda state, key, value: change_first(state, (value for _, value in state.items())),
    "copy": lambda state, key, value: change_first(state, state.copy().values()),
    "module copy": lambda state, key, value: change_first(state, copy(state).values()),
    "dict": lambda state, key, value: change_first(state, dict(state).values()),
    "unpacking": lambda state, key, value: change_first(state, {**state}.values()),
    "union": lambda state, key, value: change_first(state, (state | {-1: 0}).values()),
    "reversed union": lambda state, key, value: change_first(state, reversed(({-1: 0} | state).values())),
    "match": match_in_place,
    "iteration": lambda state, key, value: list(map(add_in_place, (state[found] for found in state if found != key))),
    "delete some": delete_some,
}

VALUES = st.one_of(
    st.integers(0, 9),
    st.text("ab", max_size=2),
    st.lists(st.integers(0, 1), max_size=1),
    st.tuples(st.integers(0, 1), st.booleans()),
    st.tuples(st.lists(st.integers(0, 1), max_size=1)),
)
ACTIONS = st.lists(st.one_of(st.just("cut"), st.tuples(st.sampled_from(sorted(CHANGES)), st.integers(0, 30), VALUES)))
BEGINNINGS = st.dictionaries(st.integers(0, 30), VALUES, max_size=25)


@settings(max_examples=300)
@given(BEGINNINGS, ACTIONS)
def test_the_cuts_write_what_the_state_has(begins_with: dict[Any, Any], actions: list[Any]) -> None:
    """Whatever is done to a state in between, and though files before the last ended sweep are gone."""
    with pytest.MonkeyPatch.context() as patch:
        use_small_sweeps(patch)
        state: KeyedState[Any, Any] = KeyedState(deep(begins_with))
        plain = deep(begins_with)
        written = Written()
        for action in actions:
            if action == "cut":
                written.add(state.cut())
                assert written.entries() == plain
            else:
                name, key, value = action
                CHANGES[name](state, key, deep(value))
                CHANGES[name](plain, key, deep(value))
            assert state == plain
            assert list(state.items()) == list(plain.items())
        written.add(state.cut())
        assert written.entries() == plain


@pytest.mark.usefixtures("small_sweeps")
@pytest.mark.parametrize("name", sorted(CHANGES))
def test_each_way_to_change_a_state_is_noticed(name: str) -> None:
    """In a state of many keys, of which a cut writes few."""
    state: KeyedState[Any, Any] = KeyedState({key: [key] for key in range(100)})
    written = Written()
    written.add(state.cut())
    written.add(state.cut())
    CHANGES[name](state, 50, ["new"])
    written.add(state.cut())
    assert written.entries() == state


@pytest.mark.usefixtures("small_sweeps")
def test_a_cut_writes_what_has_changed_and_a_little_more() -> None:
    """Of a hundred keys, the one that has changed, the one that is gone, and as many others as a sweep takes."""
    state = KeyedState({key: key for key in range(100)})
    assert len(pairs_in(state.cut())) == 100
    state[7] = 70
    del state[8]
    state[9]  # a number that is read has not changed
    cut = state.cut()
    assert (cut.begins, cut.ends, cut.gone, cut.pickled) == (True, False, [8], None)
    assert sorted(pairs_in(cut)) == [(0, 0), (1, 1), (2, 2), (7, 70)]


@pytest.mark.usefixtures("small_sweeps")
def test_a_sweep_ends_though_keys_come_and_go() -> None:
    """So old files are let go, whatever happens to the keys that it has yet to write."""
    random = Random(0)
    state = KeyedState({key: [key] for key in range(60)})
    written = Written()
    written.add(state.cut())
    ended = 0
    for new in range(60, 180):
        del state[random.choice(list(state))]
        state[new] = [new]
        written.add(state.cut())
        ended += written.cuts[-1].ends
        assert written.entries() == state
    assert 120 // 25 <= ended <= 120 // 15


@pytest.mark.usefixtures("small_sweeps")
def test_a_cut_that_is_not_written_is_made_up_for() -> None:
    """The next one writes all keys, and what was gone before is not there."""
    state = KeyedState({key: key for key in range(20)})
    state.cut()
    state[3] = 30
    del state[4]
    state.cut()
    state.write_all_next()
    written = Written()
    written.add(state.cut())
    assert (written.cuts[0].begins, written.cuts[0].ends) == (True, True)
    assert written.entries() == state


@pytest.mark.usefixtures("small_sweeps")
@pytest.mark.parametrize(
    "update",
    [
        lambda state: state.update(state),
        lambda state: state.__ior__(state),
        lambda state: state.update((key, state[key] + [0]) for key in range(60)),
    ],
    ids=["itself", "or itself", "pairs that read it"],
)
def test_an_update_may_read_the_state_that_it_changes(update: Callable[[KeyedState[int, list[int]]], object]) -> None:
    """So many values are read that it is no longer noted what changes; the update does its work all the same."""
    state = KeyedState({key: [key] for key in range(60)})
    written = Written()
    written.add(state.cut())
    update(state)
    written.add(state.cut())
    assert len(state) == 60
    assert written.entries() == state


def test_a_key_without_a_value_has_that_which_is_made() -> None:
    """When it is read by brackets, before a cut and after one, as in a defaultdict; what is made counts as changed."""
    state: KeyedState[str, list[int]] = KeyedState(make=list)
    state["a"].append(1)
    state.cut()
    state["a"].append(2)
    state["b"].append(3)
    assert state.get("c") is None
    assert "c" not in state
    assert state == {"a": [1, 2], "b": [3]}
    cut = state.cut()
    assert cut.pickled is not None
    assert entries_of([cut.pickled.data], pickle.loads) == state


def test_a_value_that_changes_after_the_cut_is_as_it_was() -> None:
    """An operator goes on right after the cut, while that is being written."""
    state: KeyedState[str, Any] = KeyedState({"list": [1], "tuple": ([1],), "number": 1})
    cut = state.cut()
    state["list"].append(2)
    state["tuple"][0].append(2)
    state["number"] += 1
    assert cut.pickled is not None
    assert entries_of([*map(pickle.dumps, cut.unchanging), cut.pickled.data], pickle.loads) == {
        "list": [1],
        "tuple": ([1],),
        "number": 1,
    }


def test_a_value_that_cannot_be_pickled_is_an_error_of_the_cut() -> None:
    """And not one of the thread that writes it."""
    state = KeyedState({"generator": (number for number in range(3))})
    with raises(TypeError):
        state.cut()


def test_errors_are_those_of_a_dict() -> None:
    """A key that is missing or cannot be hashed, and a change of the keys under way."""
    state: KeyedState[Any, Any] = KeyedState({1: 2})
    state.cut()
    for act in (lambda: state["none"], lambda: state.pop("none"), lambda: state.__delitem__("none")):
        with pytest.raises(KeyError, match="none"):
            act()
    for act in (lambda: state[[]], lambda: state.get([]), lambda: state.pop([], 0), lambda: state.setdefault([], 0)):
        with pytest.raises(TypeError, match="unhashable"):
            act()
    keys = iter(state)
    state[2] = 0
    with pytest.raises(RuntimeError, match="changed size"):
        next(keys)
    state.clear()
    with raises(KeyError):
        state.popitem()
    assert Written().entries() == {}


def test_a_copy_is_a_plain_dict() -> None:
    """As is one that is pickled inside of something else: only the operator's own state knows its changes."""
    state = KeyedState({1: [2]})
    for made in (state.copy(), copy(state), deepcopy(state), pickle.loads(pickle.dumps(state)), state | {}):
        assert type(made) is dict
        assert made == {1: [2]}


def test_a_state_takes_little_more_memory_than_a_dict() -> None:
    """Many keys with small values: before cuts, after them, when a tenth has changed since, and when all have."""
    plain_size, plain = traced(lambda: dict(enumerate(range(MANY))))
    del plain
    tracemalloc.start()
    try:
        state = KeyedState(enumerate(range(MANY)))
        for step in (10, 1):
            assert tracemalloc.get_traced_memory()[0] <= MOST_MEMORY * plain_size
            for _ in state.cut().unchanging:
                pass
            assert tracemalloc.get_traced_memory()[0] <= MOST_MEMORY * plain_size
            for key in range(0, MANY, step):
                state[key] = state[key] + MANY
            assert tracemalloc.get_traced_memory()[0] <= MOST_MEMORY * plain_size
    finally:
        tracemalloc.stop()


def traced(make: Callable[[], Any]) -> tuple[int, Any]:
    """Return how many bytes what is made takes, and what it is."""
    tracemalloc.start()
    try:
        made = make()
        return tracemalloc.get_traced_memory()[0], made
    finally:
        tracemalloc.stop()


def test_sizes_are_traced() -> None:
    """The comparison of sizes means something: a dict of a million numbers takes more than its table."""
    size, made = traced(lambda: dict.fromkeys(range(100_000), 0))
    assert size > sys.getsizeof(made)
