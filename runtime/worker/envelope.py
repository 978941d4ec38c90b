"""The envelope: all that travels at once between two workers, or between a feeder and a worker, and its frames.

The frames are one pickle, and each large buffer in it as a frame of its own. A buffer of an Arrow stream or a NumPy
array is sent from where it lies, and read where it arrives. Small buffers stay in the pickle.
"""

import pickle
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from tidewheel.progress import ProgressBatch, ProtocolError, Time
from tidewheel.runtime.inputs.feeders import FeederStatus
from tidewheel.runtime.substreams.news import SubstreamNews
from tidewheel.runtime.worker.flow_control import Credit
from tidewheel.runtime.worker.message import Message
from tidewheel.runtime.worker.worker_status import WorkerStatus
from tidewheel.transport.link import Codec
from tidewheel.transport.pickling import dump_frames, dumps, pack, unpack

_LARGE = 16 * 1024

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

    A worker tells each feeder its ``status`` in an envelope of its own; those are numbered for all feeders together.
    Each feeder tells the workers its own; see `FeederStatus`.

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
    status: WorkerStatus | FeederStatus | None = None


_FIELDS = len(msgspec.structs.fields(Envelope))


def _command(
    name: str, action: InputAction, time: Time, packed: Any, size: int, handle: int, origin: int
) -> InputCommand:
    return InputCommand(name, action, time, unpack(packed), size, handle, origin)


def encode(envelope: Envelope) -> list[Any]:
    """Return the frames of an envelope.

    Raises:
        TypeError, AttributeError, PicklingError: something in it cannot be pickled.
    """
    # A tuple takes half the time of an object, and of a small envelope that is most of it.
    fields = msgspec.structs.astuple(envelope)
    return dump_frames(fields, _LARGE) if envelope.messages or envelope.commands else [dumps(fields)]


def decode(head: bytes, buffers: Sequence[Any] = ()) -> Envelope:
    """Return the envelope of which these are the frames; only for frames from a peer that has proved it belongs.

    Raises:
        ProtocolError: it cannot be unpickled.
    """
    try:
        fields = pickle.loads(head, buffers=buffers) if buffers else pickle.loads(head)  # noqa: S301 - from members only
    except Exception as error:
        raise ProtocolError(f"it cannot be unpickled: {type(error).__name__}: {error}") from error
    if type(fields) is not tuple or len(fields) != _FIELDS:
        raise ProtocolError(f"it cannot be unpickled: it is no envelope but of type {type(fields).__name__}")
    return Envelope(*fields)


ENVELOPES: Codec[Envelope] = Codec(encode, decode, Envelope)
