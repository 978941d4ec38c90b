"""The envelope: all that travels at once between two workers, or between the driver and a worker."""

from typing import Any, Literal, TypeAlias

import msgspec

from tidewheel.progress import ProgressBatch, Time
from tidewheel.runtime.substreams.news import SubstreamNews
from tidewheel.runtime.worker.flow_control import Credit
from tidewheel.runtime.worker.message import Message
from tidewheel.runtime.worker.worker_status import WorkerStatus
from tidewheel.transport.packed_batch import pack, unpack

FIRST_HANDLE = 0
"""The number of the handle with which an input begins; those of the others are drawn by chance."""

InputAction: TypeAlias = Literal["send", "advance", "close", "clone", "end"]
"""What a handle of an input can do."""


class InputCommand(msgspec.Struct, frozen=True, array_like=True):
    """What a handle does to one worker's share of an input; ``size`` is what its batch counts for, in bytes.

    ``handle`` is the handle's number. ``"clone"`` makes it, at ``time``, from the handle with the number ``origin``.
    ``"end"`` ends the substreams whose keys are the batch.
    """

    input: str
    action: InputAction
    time: Time = None
    batch: Any = None
    size: int = 0
    handle: int = FIRST_HANDLE
    origin: int = FIRST_HANDLE

    def __reduce__(self) -> tuple[Any, ...]:
        return _command, (self.input, self.action, self.time, pack(self.batch), self.size, self.handle, self.origin)


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """All that one step of a sender has for one receiver: data and progress together, applied at once.

    A worker tells the driver its ``status`` in an envelope of its own; `WorkerStatus.version` numbers those.

    ``sequence`` counts from 0 for each sender and receiver; see `OrderedInbox`. ``substreams`` is what the sender tells
    of substreams, and ``heard`` how much it had heard of them itself; see `SubstreamBooks`.
    """

    sender: int
    incarnation: int
    sequence: int
    messages: list[Message] = []
    progress: ProgressBatch = []
    commands: list[InputCommand] = []
    credit: Credit | None = None
    substreams: SubstreamNews | None = None
    heard: int = 0
    status: WorkerStatus | None = None


def _command(
    name: str, action: InputAction, time: Time, packed: Any, size: int, handle: int, origin: int
) -> InputCommand:
    return InputCommand(name, action, time, unpack(packed), size, handle, origin)
