"""How an envelope crosses a socket: one pickle, and the large buffers in it each as a frame of its own.

A buffer of an Arrow stream or a NumPy array is sent from where it lies and read where it arrives (pickle protocol 5,
PEP 574); small ones are not worth a frame.
"""

import pickle
from collections.abc import Sequence
from typing import Any

import cloudpickle
import msgspec

from tidewheel.progress import ProtocolError
from tidewheel.runtime.worker.envelope import Envelope

_LARGE = 16 * 1024
_PROTOCOL = 5
_FIELDS = len(msgspec.structs.fields(Envelope))


def encode(envelope: Envelope, *, by_value: bool = False) -> list[Any]:
    """Return the frames of an envelope.

    Args:
        envelope: what to send.
        by_value: whether the classes and functions of this process's main program travel with it. A worker tries
            without first, which is faster.

    Raises:
        TypeError, AttributeError, PicklingError: something in it cannot be pickled.
    """
    if not by_value:
        try:
            return _frames(pickle.dumps, envelope)
        except Exception:  # noqa: BLE001, S110 - a class of the main program, or nothing that can be pickled at all
            pass
    try:
        return _frames(cloudpickle.dumps, envelope)
    except (TypeError, AttributeError, pickle.PicklingError):
        raise
    except Exception as error:
        raise pickle.PicklingError(f"{type(error).__name__}: {error}") from error


def _frames(dumps: Any, envelope: Envelope) -> list[Any]:
    # A tuple takes half the time of an object, and of a small envelope that is most of it.
    fields = msgspec.structs.astuple(envelope)
    if not envelope.messages and not envelope.commands:
        return [dumps(fields, _PROTOCOL)]
    buffers: list[Any] = []

    def keep_in_band(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _LARGE:
            return True
        buffers.append(raw)
        return False

    return [dumps(fields, _PROTOCOL, buffer_callback=keep_in_band), *buffers]


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
