"""The envelope: everything that one step sends to one worker.

An outbox puts the messages and the progress of a step into one envelope for each peer. An envelope is sent as one
pickle and the large buffers of Arrow and NumPy, uncopied. A link may reorder and repeat envelopes, so an outbox numbers
the envelopes to each peer from 0.
"""

import pickle
from collections.abc import Sequence
from typing import Any, Literal, Self, TypeAlias

import msgspec

from tidewheel.batches.batches import pack, unpack
from tidewheel.progress import ProgressBatch, ProtocolError, Time
from tidewheel.runtime.messages.credit import Credit
from tidewheel.runtime.messages.feeder_status import FeederStatus, WorkerStatus
from tidewheel.runtime.messages.input_position import Positions
from tidewheel.runtime.messages.labels import Labels, MixedLabel, parts_by_key
from tidewheel.runtime.messages.news import SubstreamNews
from tidewheel.runtime.messages.questions import Question
from tidewheel.transport.frames import dump_frames, dumps
from tidewheel.transport.link import Codec

_LARGE = 16 * 1024


FIRST_HANDLE = 0
"""The number of an input's first handle; later handles have random numbers."""

InputAction: TypeAlias = Literal["send", "advance", "close", "clone", "end"]
"""The actions of an input's handle."""


class Message(msgspec.Struct, frozen=True, array_like=True):
    """One batch at one time for one input port.

    ``target`` is the port's location number; ``size`` is the bytes that the worker ``sender`` counts as in flight.
    """

    target: int
    time: Time
    batch: Any
    size: int = 0
    sender: int = 0
    label: Labels | None = None

    def taken(self) -> Self:
        return msgspec.structs.replace(self, size=0)

    def __reduce__(self) -> tuple[Any, ...]:
        return _message, (self.target, self.time, pack(self.batch), self.size, self.sender, self.label)

    def divided(self) -> "list[Message]":
        """Return one message for each substream of this message; the last one counts all bytes."""
        label = self.label
        assert isinstance(label, MixedLabel), "a message of one substream is not divided"
        made = [
            Message(self.target, self.time, part, 0, self.sender, (label.declaration, key))
            for key, part in parts_by_key(self.batch, label.keys)
        ]
        return [*made[:-1], msgspec.structs.replace(made[-1], size=self.size)]


def _message(target: int, time: Time, packed: Any, size: int, sender: int, label: Labels | None) -> Message:
    return Message(target, time, unpack(packed), size, sender, label)


class InputCommand(msgspec.Struct, frozen=True, array_like=True):
    """An action of a handle on one worker's part of an input.

    ``handle`` is the handle's number; ``size`` is the batch's bytes in flight. ``"clone"`` makes the handle, at
    ``time``, from the handle ``origin``. When a handle is passed on or closed, ``batch`` is its position. ``"end"``
    ends the substreams of the keys in ``batch``.
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
    """Everything from one step of a sender for one receiver: data and progress, applied at once.

    ``sequence`` counts from 0 for each sender and receiver; see `OrderedInbox`. A worker's envelopes with ``status``
    share one count for all feeders. ``substreams`` is news of substreams, and ``heard`` how much of it the sender had
    received; see `SubstreamBooks`. ``snapshot`` is the number of the sender's snapshot; see `Cut`. A ``marker`` begins
    a snapshot: a feeder sends its positions to worker 0, worker 0 sends its list of feeders to the others, other
    markers are empty. ``saved`` is the driver's news of the last durable snapshot, 0 for none. ``question`` comes from
    the driver.
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
    snapshot: int = 0
    marker: Positions | tuple[int, ...] | None = None
    saved: int = 0
    question: Question | None = None


_FIELDS = len(msgspec.structs.fields(Envelope))


def _command(
    name: str, action: InputAction, time: Time, packed: Any, size: int, handle: int, origin: int
) -> InputCommand:
    return InputCommand(name, action, time, unpack(packed), size, handle, origin)


def encode(envelope: Envelope) -> list[Any]:
    """Return the frames of an envelope; raise the error of a part that cannot be pickled."""
    # A tuple takes half the time of an object; in a small envelope, that is most of the time.
    fields = msgspec.structs.astuple(envelope)
    return dump_frames(fields, _LARGE) if envelope.messages or envelope.commands else [dumps(fields)]


def decode(head: bytes, buffers: Sequence[Any] = ()) -> Envelope:
    """Return the envelope in the frames of an authenticated peer.

    Raises:
        ProtocolError: the envelope cannot be unpickled.
    """
    try:
        fields = pickle.loads(head, buffers=buffers) if buffers else pickle.loads(head)  # noqa: S301 - from members only
    except Exception as error:
        raise ProtocolError(f"it cannot be unpickled: {type(error).__name__}: {error}") from error
    if type(fields) is not tuple or len(fields) != _FIELDS:
        raise ProtocolError(f"it cannot be unpickled: it is no envelope but of type {type(fields).__name__}")
    envelope = Envelope(*fields)
    if buffers or len(head) > _LARGE:
        _count_frames(envelope, len(head) + sum(memoryview(buffer).nbytes for buffer in buffers))
    return envelope


def uncounted_bytes(envelope: Envelope, frame_bytes: int) -> int:
    """Return by how many bytes the frames of an envelope exceed its batches; 0 if they are small.

    The sender counts these bytes as in flight; the receiver counts them with the last batch.
    """
    parts = envelope.messages or envelope.commands
    if frame_bytes <= _LARGE or not parts:
        return 0
    return max(0, frame_bytes - sum(part.size for part in parts))


def _count_frames(envelope: Envelope, frame_bytes: int) -> None:
    more = uncounted_bytes(envelope, frame_bytes)
    parts: list[Any] = envelope.messages or envelope.commands
    if more:
        parts[-1] = msgspec.structs.replace(parts[-1], size=parts[-1].size + more)


ENVELOPES: Codec[Envelope] = Codec(encode, decode, Envelope)
