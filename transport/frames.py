"""Messages as bytes: pickles, and frames on a non-blocking stream socket.

Values are pickled by the standard library if possible, else by value with cloudpickle. A frame has a head, which
describes the message, and a payload:

==========  ==================  =================  =======
4 bytes     8 bytes             as many as it says  as many
length of   length of the       the head           payload
the head    payload
==========  ==================  =================  =======

So a receiver can read the head first, and then a large payload directly into its place. An empty frame only shows that
the sender is alive.

Source: seed "Strymon publish-subscribe", section "Protocol Messages" (multi-part slots).
"""

import pickle
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from socket import socket
from typing import Any, Final, Generic, TypeAlias, TypeVar

import cloudpickle

from tidewheel.host.program_classes import PROTOCOL, dump_by_value
from tidewheel.progress import ProtocolError
from tidewheel.transport.received_memory import ReceivedMemory

M = TypeVar("M")
Payload: TypeAlias = Any
"""Bytes in any buffer with a length: ``bytes``, a ``memoryview``, or a ``pyarrow.Buffer``."""

_MAIN = pickle.SHORT_BINUNICODE + bytes([len("__main__")]) + b"__main__"
_LENGTHS = struct.Struct("<IQ")
SIGN_OF_LIFE: Final = _LENGTHS.pack(0, 0)
"""An empty frame."""
_LARGEST_HEAD = 64 * 1024 * 1024
_BUFFER_BYTES = 32 * 1024
LARGE: Final = 16 * 1024
"""A payload of at least this size is sent and received as a separate part: copying it would cost more."""

MOST_AT_ONCE: Final = 4 * 1024 * 1024
"""About how many bytes are read from one socket before others have their turn."""
STEADILY: Final = 256 * 1024
"""The same for a subscriber that may hold back its publisher: frequent reads show the publisher its progress."""


def frame_of(head: bytes, payloads: Sequence[Payload]) -> list[Any]:
    """Return the parts of a frame with several payloads; large payloads are not copied."""
    size = sum(map(len, payloads))
    small: list[Any] = [_LENGTHS.pack(len(head), size), head]
    if size < LARGE:
        return [b"".join([*small, *payloads])]
    parts: list[Any] = []
    for payload in payloads:
        if len(payload) < LARGE:
            small.append(payload)
        else:
            if small:
                parts.append(b"".join(small))
            parts.append(payload)
            small = []
    return [*parts, b"".join(small)] if small else parts


def dumps(value: Any) -> bytes:
    """Return ``value`` pickled.

    Other processes cannot import classes and functions of the main program, and of modules registered with cloudpickle.
    Values that contain such a class or function are pickled by value, which is slower.

    Raises:
        TypeError, AttributeError, PicklingError: a part of ``value`` cannot be pickled.
    """
    return bytes(_dump(value, None)[0])


def dump_frames(value: Any, large: int) -> list[Any]:
    """Pickle as `dumps` does; each buffer of at least ``large`` bytes becomes a separate frame."""
    return _dump(value, large)


def _dump(value: Any, large: int | None) -> list[Any]:
    try:
        frames = _pickled(pickle.dumps, value, large)
        if not goes_by_value(frames[0]):
            return frames
    except Exception:  # noqa: BLE001, S110 - cloudpickle may succeed, or says why not
        pass
    try:
        return _pickled(dump_by_value, value, large)
    except (TypeError, AttributeError, pickle.PicklingError):
        raise
    except Exception as error:
        raise pickle.PicklingError(f"{type(error).__name__}: {error}") from error


def _pickled(dump: Any, value: Any, large: int | None) -> list[Any]:
    if large is None:
        return [dump(value, PROTOCOL)]
    buffers: list[Any] = []

    def keep_in_band(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < large:
            return True
        buffers.append(raw)
        return False

    return [dump(value, PROTOCOL, buffer_callback=keep_in_band), *buffers]


def goes_by_value(head: bytes) -> bool:
    """Tell whether a pickle may name a class or function that other processes cannot import.

    Pickle protocol 5 writes the module of a class as a short text, followed by the opcode STACK_GLOBAL. A record whose
    text only mentions the main program rarely gives a wrong True.
    """
    if pickle.STACK_GLOBAL not in head:
        return False
    return _MAIN in head or any(name.encode() in head for name in cloudpickle.list_registry_pickle_by_value())


def unpicklable(value: Any, otherwise: Exception | None = None) -> str | None:
    """Return why ``value`` cannot be pickled. If it can be pickled, return the text of ``otherwise``, or None."""
    try:
        cloudpickle.dumps(value)
    except Exception as cause:  # noqa: BLE001 - a user's object may raise anything when it is pickled
        return f"{type(cause).__name__}: {cause}"
    return None if otherwise is None else f"{type(otherwise).__name__}: {otherwise}"


def pickled_size(value: Any) -> int:
    try:
        return len(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except Exception:  # noqa: BLE001 - the number is for statistics only
        return 0


def unpickled(content: Payload) -> Any:
    """Unpickle bytes. They must come from an authenticated process of this user.

    Raises:
        ProtocolError: the object cannot be unpickled here.
    """
    try:
        return pickle.loads(content)  # noqa: S301 - see above
    except Exception as error:
        raise ProtocolError(f"a message cannot be unpickled: {type(error).__name__}: {error}") from error


class FrameReader(Generic[M]):
    """Reads messages from a non-blocking socket.

    Args:
        decode: makes a message from a head and a payload, or raises ProtocolError. The head is valid only during the
            call.
        most_payload_bytes: the largest payload of one frame; None for no limit.
        room_for: returns memory for a large payload, or None if any memory will do.

    Attributes:
        is_at_end: whether the peer has gone and `read` has returned all its messages.
    """

    def __init__(
        self,
        source: socket,
        decode: Callable[[Payload, Payload], M],
        most_at_once: int = MOST_AT_ONCE,
        most_payload_bytes: int | None = None,
        room_for: Callable[[int], memoryview | None] = lambda _: None,
        most_messages: int = sys.maxsize,
    ) -> None:
        self._most_messages = most_messages
        self._socket = source
        self._decode = decode
        self._most_at_once = most_at_once
        self._most_payload_bytes = most_payload_bytes
        self._room_for = room_for
        self._memory = ReceivedMemory()
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0
        self._head: Any = None
        self._payload = memoryview(b"")
        self._filled = self.read_bytes = 0
        self.is_at_end = False

    def read(self) -> Iterator[M]:
        """Yield the messages that have arrived, up to about the limits.

        Raises:
            ProtocolError: the bytes are not a frame.
        """
        taken = messages = 0
        while taken < self._most_at_once and messages < self._most_messages:
            room = self._view[self._end :] if self._head is None else self._payload[self._filled :]
            try:
                count = self._socket.recv_into(room)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                count = 0  # the peer has died: here that is the end of its messages, as if it had closed the connection
            if not count:
                self.is_at_end, self._payload = True, memoryview(b"")  # a half-read message is useless
                return
            taken += count
            self.read_bytes += count
            if self._head is None:
                self._end += count
                for message in self._frames():
                    messages += 1
                    yield message
            else:
                self._filled += count
                if self._filled == len(self._payload):
                    self._start = self._end = 0
                    messages += 1
                    yield self._large()
            if count < len(room):
                return  # the socket had no more, so there is no need to ask

    def _frames(self) -> Iterator[M]:
        while self._head is None and (have := self._end - self._start) >= _LENGTHS.size:
            head_bytes, payload_bytes = _LENGTHS.unpack_from(self._buffer, self._start)
            if head_bytes > _LARGEST_HEAD:
                raise ProtocolError(f"the bytes are no frame: its head would be {head_bytes} bytes long")
            if self._most_payload_bytes is not None and payload_bytes > self._most_payload_bytes:
                raise ProtocolError(
                    f"the frame is larger than is expected here: its payload would be {payload_bytes} bytes"
                )
            size = _LENGTHS.size + head_bytes
            if payload_bytes >= LARGE:
                if have < size:
                    self._make_room(size)
                    return
                yield from self._begin_large(head_bytes, payload_bytes)
                continue
            size += payload_bytes
            if have < size:
                self._make_room(size)
                return
            begin = self._start + _LENGTHS.size
            self._start += size
            payload = bytes(self._view[begin + head_bytes : self._start]) if payload_bytes else b""
            if size > _LENGTHS.size:
                yield self._decode(self._view[begin : begin + head_bytes], payload)
        if self._head is None:
            self._make_room(_LENGTHS.size)

    def _begin_large(self, head_bytes: int, payload_bytes: int) -> Iterator[M]:
        begin = self._start + _LENGTHS.size
        self._head = bytes(self._view[begin : begin + head_bytes])
        begin += head_bytes
        try:
            self._payload = self._room_for(payload_bytes) or self._memory.lend(payload_bytes)
        except (MemoryError, ValueError) as error:
            raise ProtocolError(f"the frame would have a payload of {payload_bytes} bytes: {error}") from error
        self._filled = min(payload_bytes, self._end - begin)
        self._payload[: self._filled] = self._view[begin : begin + self._filled]
        self._start = begin + self._filled
        if self._filled == payload_bytes:
            yield self._large()

    def _large(self) -> M:
        head, payload = self._head, self._payload
        self._head, self._payload, self._filled = None, memoryview(b""), 0
        return self._decode(head, payload)

    def _make_room(self, size: int) -> None:
        if self._start == self._end:
            self._start = self._end = 0
        if len(self._buffer) - self._start >= size:
            return
        left = bytes(self._view[self._start : self._end])
        if size > len(self._buffer):
            self._buffer = bytearray(size)
            self._view = memoryview(self._buffer)
        self._view[: len(left)] = left
        self._start, self._end = 0, len(left)
