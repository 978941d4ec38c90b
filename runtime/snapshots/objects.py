"""The contract of a folder of objects, wherever it is, and how to carry out the calls of `protocol` on one."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from tidewheel.runtime.snapshots.protocol import Call, Calls, Get, PutNew, Remove, Sizes

T = TypeVar("T")


@runtime_checkable
class ObjectFolder(Protocol):
    """Objects by name, under a URL. All methods may be called from several threads, and raise `SnapshotError`."""

    def write(self, name: str, frames: Sequence[memoryview]) -> None:
        """Put an object that consists of frames, one after the other; readers see all of it or nothing."""

    def put_new(self, name: str, data: bytes) -> bool:
        """Put a small object unless there is one of that name; return whether it was put."""

    def read(self, name: str, size: int = 0) -> bytes | None:
        """Return the bytes of an object, None if there is none; a large ``size`` is read in pieces."""

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """Return the sizes in bytes of the objects in a subfolder, such as ``log/``, by their names."""

    def remove(self, names: Sequence[str]) -> None:
        """Remove objects, those that are there."""


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
