"""`held_bytes` and `RecordSizes`: records count for what they hold, whatever they are, and in bounded time."""

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple
from unittest.mock import Mock

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tidewheel.batches import held_bytes as held
from tidewheel.batches.batches import size_in_bytes
from tidewheel.batches.held_bytes import RecordSizes, held_bytes

MB = 1_000_000


class Named(NamedTuple):
    """A record that is a tuple."""

    number: int
    image: bytes


@dataclass
class Plain:
    """A record with a dictionary."""

    number: int
    image: bytes


@dataclass(slots=True)
class Slotted:
    """A record without one."""

    number: int
    image: bytes


class Struct(msgspec.Struct):
    """A record of a compiled class."""

    number: int
    image: bytes


class Text(str):
    """A text of a user's class."""

    __slots__ = ()

    def __sizeof__(self) -> int:
        raise NotImplementedError


class HostileList(list[Any]):
    """A list of a user's class; so are those below."""

    def __len__(self) -> int:
        raise NotImplementedError

    __iter__ = __getitem__ = __len__  # type: ignore[assignment]


class HostileDict(dict[str, Any]):
    """A dict whose values are loaded when they are asked for."""

    def values(self) -> Any:
        """Load them."""
        raise NotImplementedError

    __len__ = __iter__ = items = values


class HostileSet(set[Any]):
    """A set that has no length."""

    def __len__(self) -> int:
        raise NotImplementedError

    __iter__ = __len__  # type: ignore[assignment]


class HostileObject:
    """An object that does not tell of what class it is."""

    def __init__(self, image: bytes) -> None:
        self.image = image

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise NotImplementedError


class Meta(type):
    """A class of classes that have an attribute that cannot be read."""

    @property
    def nbytes(cls) -> int:
        """Raise an error."""
        raise NotImplementedError


class Unreadable(metaclass=Meta):
    """A record that cannot be looked at."""


class Node:
    """A record that refers to itself, by way of many others."""

    def __init__(self, image: bytes) -> None:
        self.image = image
        self.nodes = [self] * 10


RECORDS: dict[str, Callable[[], Any]] = {
    "bytes": lambda: bytes(MB),
    "text": lambda: "x" * MB,
    "tuple": lambda: (1, bytes(MB)),
    "list": lambda: [1, bytes(MB)],
    "dict": lambda: {"number": 1, "image": bytes(MB)},
    "nested": lambda: {"a": [{"b": ({"c": bytes(MB)},)}]},
    "ordered dict": lambda: OrderedDict(image=bytes(MB)),
    "named tuple": lambda: Named(1, bytes(MB)),
    "set": lambda: {bytes(MB)},
    "deque": lambda: deque([bytes(MB)]),
    "dataclass": lambda: Plain(1, bytes(MB)),
    "slots": lambda: Slotted(1, bytes(MB)),
    "struct": lambda: Struct(1, bytes(MB)),
    "array": lambda: {"image": np.zeros(MB, np.uint8)},
    "array of objects": lambda: (np.array([bytes(MB), None], dtype=object),),
    "table": lambda: {"table": pa.table({"n": np.zeros(MB, np.uint8)})},
    "frame": lambda: {"frame": pd.DataFrame({"n": np.zeros(MB, np.uint8)})},
    "cycle": lambda: Node(bytes(MB)),
    "many small": lambda: {number: float(number) for number in range(11_000)},
    "many parts": lambda: [(number, float(number)) for number in range(1000, 10_000)],
}


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_counts_for_what_it_holds(kind: str) -> None:
    """A megabyte does, wherever in the record it is: neither much less, nor much more."""
    assert 0.9 * MB < held_bytes([RECORDS[kind]()]) < 2.1 * MB
    assert 9 * MB < held_bytes([RECORDS[kind]() for _ in range(10)]) < 21 * MB


def test_small_records_stay_small() -> None:
    """The class of a record is not part of it."""
    for record in (1, 1.5, None, "a", (1, "a"), {"n": 1}, Plain(1, b""), Slotted(1, b""), Struct(1, b"")):
        assert held_bytes([record]) < 500, record


def test_a_few_large_records_count_on_average() -> None:
    """So the bytes in flight are right over some messages, wherever in a list the large ones are."""
    sizes = RecordSizes()
    records = [{"image": bytes(MB) if number == 333 else b""} for number in range(1000)]
    found = [sizes.of(records) for _ in range(2000)]
    assert 0.5 * MB < sum(found) / len(found) < 2 * MB
    wide = {f"field {number}": bytes(MB) if number == 77 else b"" for number in range(100)}
    found = [sizes.of([wide]) for _ in range(128 * 500)]
    assert 0.5 * MB < sum(found) / len(found) < 2 * MB


@pytest.mark.parametrize("large", [lambda: bytes(MB), lambda: {"image": bytes(MB)}], ids=["bytes", "dicts"])
def test_records_that_grow_are_noticed(large: Callable[[], Any]) -> None:
    """At once if they are of another class, or texts or bytes; else after 128 records at most."""
    sizes = RecordSizes()
    assert sizes.of([b""]) < 200
    assert sizes.of([large()]) > MB
    assert sizes.of([{}]) < 200 or sizes.of([{} for _ in range(129)]) < 129 * 200
    assert sizes.of([{"image": bytes(MB)} for _ in range(129)]) > 129 * MB


def test_users_methods_are_not_called() -> None:
    """They may take long, or raise."""
    assert MB < held_bytes([Text("x" * MB)]) < 1.1 * MB
    assert MB < held_bytes([HostileList([bytes(MB)])]) < 1.1 * MB
    assert MB < held_bytes([HostileDict(image=bytes(MB))]) < 1.1 * MB
    assert MB < held_bytes([HostileSet([bytes(MB)])]) < 1.1 * MB
    assert MB < held_bytes([HostileObject(bytes(MB))]) < 1.1 * MB


def test_what_cannot_be_estimated_counts_as_a_guess() -> None:
    """The job goes on: neither the first message fails it, nor those after it."""
    sizes = RecordSizes()
    assert [sizes.of([{"own": [Unreadable()]}] * 10) // 10_000 for _ in range(3)] == [1, 1, 1]
    assert sizes.of([Unreadable()] * 10) // 10_000 == 1


def test_classes_that_take_turns_are_each_looked_at_once_in_128(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at each message: that costs fifty times as much."""
    measure = Mock(return_value=MB)
    monkeypatch.setattr(held, "held_bytes", measure)
    sizes, kinds = RecordSizes(), (Plain(1, b""), Slotted(1, b""), {"n": 1})
    assert all(sizes.of([kind]) > MB for _ in range(128) for kind in kinds)
    assert measure.call_count == len(kinds)
    for number in range(10_000):
        sizes.of([type(f"Class{number}", (), {})()])
    assert len(sizes._known) < 100


@pytest.mark.parametrize("number", [2, 100, 1000])
@pytest.mark.parametrize("kind", [kind for kind in RECORDS if kind != "frame"])
def test_what_records_share_counts_once(kind: str, number: int) -> None:
    """Such as a configuration that all of them refer to."""
    shared = RECORDS[kind]()
    for record in (lambda: (1, shared), lambda: {"shared": shared}, lambda: Plain(1, shared), lambda: shared):
        assert held_bytes([record() for _ in range(number)]) < 3 * MB + 300 * number
    if isinstance(shared, bytes | str | list | dict):
        assert 1.8 * MB < held_bytes([Plain(1, RECORDS[kind]()) for _ in range(2)]) < 4.2 * MB


def test_what_one_record_refers_to_twice_counts_for_each_record() -> None:
    """It is not shared by all."""
    records = [{"first": image, "last": image} for image in (bytes(MB) for _ in range(10))]
    assert 9 * MB < held_bytes(records) < 11 * MB


@pytest.mark.parametrize("kind", ["flat", "square", "structured", "reversed"])
def test_arrays_of_objects_count_what_they_hold(kind: str) -> None:
    """Not eight bytes a record."""
    array = np.empty(4, dtype=object)
    array[:] = [bytes(MB) for _ in range(4)]
    structured = np.array([(n, array[n]) for n in range(4)], dtype=[("n", int), ("image", object)])
    batch = {"flat": array, "square": array.reshape(2, 2), "structured": structured, "reversed": array[::-1]}[kind]
    assert 4 * MB < size_in_bytes(batch, RecordSizes()) < 4.1 * MB


def test_a_huge_batch_takes_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than some hundred objects are looked at."""
    own_bytes = Mock(side_effect=held._own_bytes)
    monkeypatch.setattr(held, "_own_bytes", own_bytes)
    records = [[1, 2] for _ in range(10_000)]
    assert held_bytes([[*records] for _ in range(1000)]) > 100_000
    assert 0 < own_bytes.call_count < 500
