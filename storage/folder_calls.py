"""The calls of a folder as values, for code that decides which calls to make but does no I/O.

A generator yields such values; `run` makes the calls and sends the results into the generator. So a test can stop a
writer between two calls, lose an answer, or delay a call.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from tidewheel.storage.folder import Objects

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PutNew:
    """Put an object unless the name exists; the result is whether it was put."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Get:
    """Read an object; the result is its bytes, or None. If the expected ``size`` is large, it is read in pieces."""

    name: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class Sizes:
    """List the objects with a prefix; the result is their sizes by name."""

    prefix: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove objects that exist."""

    names: tuple[str, ...]


Call: TypeAlias = PutNew | Get | Sizes | Remove
Calls: TypeAlias = Generator[Call, Any, T]


def run(calls: Calls[T], folder: Objects) -> T:
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
