"""A cut that is read while the operator goes on: each key as it was in the cut, or left to the next one."""

import pickle
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from tidewheel.runtime.state import keyed_state, sweep
from tidewheel.runtime.state.keyed_state import GoneKeys, KeyedChanges, KeyedCut, KeyedState, entries_of
from tidewheel.runtime.state.sweep import Pairs, Sweep, are_unchanging, is_unchanging


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small states be swept, and be read in many steps."""
    monkeypatch.setattr(keyed_state, "_LEAST_SWEPT", 8)
    monkeypatch.setattr(keyed_state, "AT_ONCE", 2)
    monkeypatch.setattr(sweep, "AT_ONCE", 2)


class File:
    """What one cut writes, read piece by piece."""

    def __init__(self, cut: KeyedCut, state: dict[Any, Any]) -> None:
        self.cut = cut
        self.expected = deepcopy(dict(dict.items(state)))  # its own method would note that values are read
        self.pairs: list[bytes] = []
        self._left: Iterator[Pairs] = iter(cut.unchanging)

    def read(self, pieces: int = sys.maxsize) -> None:
        """Read some more."""
        for _, pairs in zip(range(pieces), self._left, strict=False):
            self.pairs.append(pickle.dumps(pairs))

    def changes(self) -> KeyedChanges:
        pickled = [] if self.cut.pickled is None else [self.cut.pickled.data]
        return [*self.pairs, *pickled, GoneKeys(self.cut.gone)]


def check(files: list[File], what: str) -> None:
    """Check that each cut gives its state, together with those before it that are needed."""
    begun = needed = 0
    for number, file in enumerate(files):
        begun = number if file.cut.begins else begun
        needed = begun if file.cut.ends else needed
        changes: KeyedChanges = []
        for one in files[needed : number + 1]:
            changes += one.changes()
        assert entries_of(changes, pickle.loads) == file.expected, what


def change(state: dict[Any, Any], random: Random) -> None:
    """Change one key in some way."""
    key = random.randrange(60)
    match random.randrange(8):
        case 0:
            state.pop(key, None)
        case 1 if key in state:
            state.__delitem__(key)
        case 2 | 3 if isinstance(state.get(key), list):
            state[key].append(key)
        case 4:
            state.update({key: random.random(), key + 1: [key]})
        case 5 if state:
            state.popitem()
        case 6:
            state.setdefault(key, key)
        case _:
            state[key] = random.choice([random.random(), (key, "text"), [key], ([key],)])


def test_a_cut_is_read_while_the_state_changes() -> None:
    """Between any two pieces; also by a thread that has not read one cut when the next is taken."""
    kinds: Counter[tuple[bool, bool]] = Counter()
    for seed in range(300):
        files = files_of(Random(seed))
        check(files, f"seed {seed}")
        kinds.update((file.cut.begins, file.cut.ends) for file in files)
    assert min(kinds[begins, ends] for begins in (False, True) for ends in (False, True)) > 50, kinds


def files_of(random: Random) -> list[File]:
    """Return what is written of a state that changes at random."""
    state: KeyedState[int, Any] = KeyedState({key: random.choice([key, [key]]) for key in range(60)})
    files: list[File] = []
    for _ in range(random.randrange(2, 30)):
        files.append(File(state.cut(), state))
        for _ in range(random.randrange(8)):
            files[-1].read(random.randrange(5))
            change(state, random)
        if random.random() < 0.9:
            files[-1].read()
    for file in files:
        file.read()
    return files


def test_a_thread_reads_what_another_one_changes() -> None:
    """Between any two steps of the interpreter, with values that say whether they are of before the cut."""
    state: KeyedState[int, int] = KeyedState(dict.fromkeys(range(4000), 0))
    files = [File(state.cut(), {})]
    files[0].read()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    left_out = 0
    try:
        for number in range(1, 60):
            state[0] = number
            file = File(state.cut(), {})
            thread = threading.Thread(target=file.read)
            thread.start()
            for key in range((number - 1) * 8, number * 8 + 24):  # those that are swept now
                state[key] = number
            thread.join()
            written = [pair for pairs in file.pairs for pair in zip(*pickle.loads(pairs), strict=True)]
            assert all(value < number for key, value in written if key != 0), "a value of after the cut was written"
            left_out += len(state) - len(written)
    finally:
        sys.setswitchinterval(before)
    assert left_out > 0


class Observed:
    """A key that calls something when it is hashed for the n-th time from now, as another thread may run then."""

    def __init__(self) -> None:
        self.calls: dict[int, Callable[[], None]] = {}

    def __hash__(self) -> int:
        self.calls = {left - 1: call for left, call in self.calls.items()}
        self.calls.pop(0, lambda: None)()
        return 1


WAYS: dict[str, Callable[[KeyedState[Any, Any], Any], object]] = {
    "set": lambda state, key: state.__setitem__(key, "new"),
    "delete": lambda state, key: state.__delitem__(key),
    "pop": lambda state, key: state.pop(key),
    "update": lambda state, key: state.update({key: "new"}),
    "or": lambda state, key: state.__ior__({key: "new"}),
}


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_change_is_noted_before_it_is_made(name: str, step: int) -> None:
    """So a thread that reads the sweep in the middle of a change writes the old value or none."""
    key = Observed()
    state: KeyedState[Any, Any] = KeyedState(dict.fromkeys([key, *range(60)], "old"))
    for _ in state.cut().unchanging:
        pass
    cut = state.cut()
    written: list[Pairs] = []
    key.calls[step] = lambda: written.extend(cut.unchanging)
    WAYS[name](state, key)
    key.calls.clear()
    written += cut.unchanging
    assert key not in state or state[key] == "new"
    assert {value for _, values in written for value in values} == {"old"}


def test_nothing_is_read_once_it_is_not_noted_what_changes() -> None:
    """Then the next cut writes all keys."""
    state = dict.fromkeys(range(6), 0)
    noted: list[dict[int, int] | None] = [{}]
    some = Sweep(state, list(state), range(6), {}, lambda: noted[0])
    assert next(iter(some)) == ([0, 1], [0, 0])
    noted[0] = None
    assert list(some) == []
    assert not some.is_read


def test_values_that_may_change_are_left() -> None:
    """And keys that had changed before, or change after the cut, are written by that one and the next."""
    since: dict[int, Any] = {3: "new"}
    some = Sweep({0: [0], 1: 1, 2: 2, 3: 3, 5: ([],)}, [9, 0, 1, 2, 3, 4, 5, 9], range(1, 7), {2: 2}, lambda: since)
    assert [pair for keys, values in some for pair in zip(keys, values, strict=True)] == [(1, 1)]
    assert some.is_read
    assert some.left == [0, 5]


@pytest.mark.parametrize("value", [0, 1.5, "a", b"a", None, True, 1j, (), (1, "a"), [], {}, ([],), ((1,),), object()])
def test_values_that_cannot_change(value: Any) -> None:
    """Numbers, texts, bytes, and tuples of them."""
    expected = isinstance(value, int | float | str | bytes | complex | None) or value in ((), (1, "a"))
    assert is_unchanging(value) == expected
    for others in ([], [1], [(1, 2)], [1, (2, 3)]):
        assert are_unchanging([*others, value]) == expected
