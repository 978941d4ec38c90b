"""The contract of a folder of objects, wherever it is, and how to carry out the calls of `protocol` on one."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from tidewheel.runtime.snapshots.protocol import Call, Calls, Get, PutNew, Remove, Sizes
from tidewheel.storage.store_url import Objects

T = TypeVar("T")


class ObjectFolder(Objects, Protocol):
    """Objects that may be large. All methods raise `SnapshotError`."""

    def write(self, name: str, frames: Sequence[memoryview]) -> None:
        """Put an object that consists of frames, one after the other; readers see all of it or nothing."""

    def remove_empty_folders(self) -> None:
        """Remove the folder and those in it that have no objects."""


def run(calls: Calls[T], folder: ObjectFolder) -> T:
    """Carry out calls one after the other; return the result of the generator."""
    reply: object = None
    while True:
        try:
            call = calls.send(reply)
        except StopIteration as end:
            result: T = end.value
            return result
        reply = _perform(call, folder)


def _perform(call: Call, folder: ObjectFolder) -> object:
    match call:
        case PutNew(name, data):
            return folder.put_new(name, data)
        case Get(name):
            return folder.read(name)
        case Sizes(prefix):
            return folder.sizes(prefix)
        case Remove(names):
            folder.remove(names)
            return None
