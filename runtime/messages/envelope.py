"""The envelope: all that travels at once between two workers, or between a feeder and a worker; its frames and order.

An outbox puts the messages and the progress of a step into one envelope for each peer. The frames are one pickle, and
each large buffer in it as a frame of its own. A buffer of Arrow or of a NumPy array is sent from where it lies,
and read where it arrives. Small buffers stay in the pickle.

An outbox numbers the envelopes for each peer, from 0, since a link may reorder and repeat them. An inbox puts those of
each sender in order, drops what it had before, and refuses another incarnation: the sender has restarted.
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
"""The number of the handle with which an input begins; those of the others are drawn by chance."""

InputAction: TypeAlias = Literal["send", "advance", "close", "clone", "end"]
"""The actions of a handle of an input."""


class Message(msgspec.Struct, frozen=True, array_like=True):
    """One batch at one time for one input port.

    ``target`` is the port's location number. The batch counts for ``size`` bytes in flight at the worker ``sender``.
    ``label`` says to which substreams the records belong; None for none.
    """

    target: int
    time: Time
    batch: Any
    size: int = 0
    sender: int = 0
    label: Labels | None = None

    def taken(self) -> Self:
        """Return the message as one that no longer counts as in flight."""
        return msgspec.structs.replace(self, size=0)

    def __reduce__(self) -> tuple[Any, ...]:
        return _message, (self.target, self.time, pack(self.batch), self.size, self.sender, self.label)

    def divided(self) -> "list[Message]":
        """Return one message for each substream, in place of this one of several.

        The last counts for the bytes of all.
        """
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
    """What a handle does to one worker's share of an input; ``size`` is what its batch counts for, in bytes.

    ``handle`` is the handle's number. ``"clone"`` makes it, at ``time``, from the handle with the number ``origin``. If
    that is handed over as the new one, its position is the ``batch``, as it is where that is closed in the end.
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
    of substreams, and ``heard`` how much it had heard of them itself; see `SubstreamBooks`. ``snapshot`` is the number
    of the snapshot that the sender is in; see `Cut`. Whoever begins one says something in a ``marker``: a feeder tells
    worker 0 its positions, worker 0 tells the others which feeders it knows, and other markers are empty. ``saved`` is
    the last snapshot that is durable, as the driver says; 0 for no news. A ``question`` is one of the driver.
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
    envelope = Envelope(*fields)
    if buffers or len(head) > _LARGE:
        _count_frames(envelope, len(head) + sum(memoryview(buffer).nbytes for buffer in buffers))
    return envelope


def uncounted_bytes(envelope: Envelope, frame_bytes: int) -> int:
    """Return how many bytes more the frames of an envelope have than its batches count for; 0 if the frames are small.

    The sender counts these bytes as in flight, and the receiver as part of the last batch.
    """
    parts = envelope.messages or envelope.commands
    if frame_bytes <= _LARGE or not parts:
        return 0
    return max(0, frame_bytes - sum(part.size for part in parts))


def _count_frames(envelope: Envelope, frame_bytes: int) -> None:
    """Have the last batch of a received envelope count for the bytes that its batches do not count for."""
    more = uncounted_bytes(envelope, frame_bytes)
    parts: list[Any] = envelope.messages or envelope.commands
    if more:
        parts[-1] = msgspec.structs.replace(parts[-1], size=parts[-1].size + more)


ENVELOPES: Codec[Envelope] = Codec(encode, decode, Envelope)
