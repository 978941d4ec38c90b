"""The calls of a folder of objects as values, so that code can decide what to call without making the call.

Such code is a generator: it yields a call and receives its result. `run` carries out the calls on a folder. A test can
stop several writers between any two calls, lose an answer, or let a call arrive late.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from tidewheel.storage.folder import Objects

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PutNew:
    """Put an object unless there is one of that name; the result says whether it was put."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Get:
    """Read an object; the result is its bytes, or None if there is none. A large ``size`` is read in pieces."""

    name: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class Sizes:
    """List the objects whose names begin so; the result is their sizes by name."""

    prefix: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove objects, those that are there."""

    names: tuple[str, ...]


Call: TypeAlias = PutNew | Get | Sizes | Remove
Calls: TypeAlias = Generator[Call, Any, T]


def run(calls: Calls[T], folder: Objects) -> T:
    """Carry out calls one after the other; return the result of the generator."""
    reply: object = None
    while True:
        try:
            call = calls.send(reply)
        except StopIteration as end:
            result: T = end.value
            return result
        reply = _perform(call, folder)


def _perform(call: Call, folder: Objects) -> object:
    match call:
        case PutNew(name, data):
            return folder.put_new(name, data)
        case Get(name, size):
            return folder.read(name, size)
        case Sizes(prefix):
            return folder.sizes(prefix)
        case Remove(names):
            folder.remove(names)
            return None
