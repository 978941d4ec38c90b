"""The frames of an envelope: one pickle, and each large buffer in it as a frame of its own.

A buffer of an Arrow stream or a NumPy array is sent from where it lies, and read where it arrives. Small buffers stay
in the pickle.
"""

import pickle
from collections.abc import Sequence
from typing import Any

import msgspec

from tidewheel.progress import ProtocolError
from tidewheel.runtime.worker.envelope import Envelope
from tidewheel.transport.link import Codec
from tidewheel.transport.pickling import dump_frames, dumps

_LARGE = 16 * 1024
_FIELDS = len(msgspec.structs.fields(Envelope))


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
