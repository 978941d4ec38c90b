"""The message: one batch at one time on its way to one input port."""

from typing import Any, Self

import msgspec

from tidewheel.progress import Time
from tidewheel.transport.pickling import pack, unpack


class Message(msgspec.Struct, frozen=True, array_like=True):
    """One batch at one time for one input port.

    ``target`` is the port's location number. The batch counts for ``size`` bytes in flight at the worker ``sender``.
    """

    target: int
    time: Time
    batch: Any
    size: int = 0
    sender: int = 0

    def taken(self) -> Self:
        """Return the message as one that no longer counts as in flight."""
        return msgspec.structs.replace(self, size=0)

    def __reduce__(self) -> tuple[Any, ...]:
        return _message, (self.target, self.time, pack(self.batch), self.size, self.sender)


def _message(target: int, time: Time, packed: Any, size: int, sender: int) -> Message:
    return Message(target, time, unpack(packed), size, sender)
