"""Large frames in pieces, for ZeroMQ sockets with a limit on frames.

ZeroMQ keeps incomplete frames in memory, even those of an unauthenticated caller. So a socket that listens to other
nodes limits the size of frames, and a sender divides larger frames. The message then has these frames:

=========  ==========================  ==========  ==========================  ===
empty      8 bytes                     pieces      8 bytes                     ...
mark       length of the first frame   of it       length of the second frame  ...
=========  ==========================  ==========  ==========================  ===

Each piece of a frame except the last has `PIECE_BYTES`. Numbers are little-endian.

Source: zmq_setsockopt(3) on ``ZMQ_MAXMSGSIZE``.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final

import zmq

from tidewheel.progress import ProtocolError
from tidewheel.transport.received_memory import ReceivedMemory

PIECE_BYTES: Final = 512 * 1024
"""The size of a piece, and so the most memory that each connection of a caller without keys can use."""

LARGEST_FRAME_BYTES: Final = PIECE_BYTES + 64
"""The limit of a socket: CURVE makes a frame 33 bytes longer."""

_LENGTH = struct.Struct("<Q")
_MORE = int(zmq.RCVMORE)


def in_pieces(frames: Sequence[Any]) -> list[Any]:
    """Return the frames of a message divided into pieces, without copying bytes."""
    parts: list[Any] = [b""]
    for frame in frames:
        content = memoryview(frame).cast("B")
        parts.append(_LENGTH.pack(len(content)))
        parts.extend(content[at : at + PIECE_BYTES] for at in range(0, len(content), PIECE_BYTES))
    return parts


def put_together(source: Any, memory: ReceivedMemory) -> list[Any]:
    """Read the rest of a divided message, whose mark has been read from a socket; return the original frames.

    Each piece is received directly into its place in ``memory``.

    Raises:
        ProtocolError: the rest is not in the format of this module.
    """
    frames: list[Any] = []
    while source.get(_MORE):
        length = source.recv()
        if len(length) != _LENGTH.size:
            raise ProtocolError(f"a message in pieces has a length of {len(length)} bytes in place of {_LENGTH.size}")
        frame = memory.lend(_LENGTH.unpack(length)[0])
        for at in range(0, len(frame), PIECE_BYTES):
            place = frame[at : at + PIECE_BYTES]
            if not source.get(_MORE) or source.recv_into(place) != len(place):
                raise ProtocolError(f"a message in pieces lacks bytes: {at} of {len(frame)} have come in whole pieces")
        frames.append(frame)
    return frames
