"""Writing to a socket that does not block: all of it, in order, as the socket takes it."""

import errno
from collections.abc import Sequence
from socket import SO_SNDBUF, SOL_SOCKET, socket, socketpair
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.transport.socket_writer import SocketWriter

KINDS = (bytes, bytearray, memoryview, pa.py_buffer)
parts = st.builds(lambda kind, content: kind(content), st.sampled_from(KINDS), st.binary(max_size=50))


def joined(found: Sequence[Any]) -> bytes:
    return b"".join(bytes(memoryview(part)) for part in found)


class Taking:
    """A socket that takes so many bytes at a time, none where it is 0."""

    def __init__(self, counts: Sequence[int]) -> None:
        self._counts = list(counts)
        self.taken = b""
        self.most_parts = 0

    def sendmsg(self, found: Sequence[Any]) -> int:
        self.most_parts = max(self.most_parts, len(found))
        count = self._counts.pop(0) if self._counts else 10**9
        if not count:
            raise BlockingIOError(errno.EAGAIN, "it takes no more")
        whole = joined(found)
        assert whole, "there is no need to write nothing"
        self.taken += whole[:count]
        return min(count, len(whole))


@given(st.lists(st.lists(parts, max_size=5), max_size=6), st.lists(st.integers(0, 70), max_size=60))
def test_everything_is_written_in_order(batches: list[list[Any]], counts: list[int]) -> None:
    """Whatever the socket takes at a time, and whenever more is added, empty or not; it always knows how much waits."""
    target = Taking(counts)
    writer = SocketWriter(cast(socket, target))
    whole = b""
    for batch in batches:
        writer.add(batch)
        whole += joined(batch)
        is_done = writer.write()
        assert is_done == (writer.waiting_bytes == 0)
        assert (writer.written_bytes, writer.waiting_bytes) == (len(target.taken), len(whole) - len(target.taken))
    for _ in counts:
        writer.write()
    assert writer.write()
    assert target.taken == whole
    assert writer.waiting_bytes == 0


def test_many_small_parts_go_together() -> None:
    """In few calls, but in none with more parts than the system takes, which is 1024."""
    target = Taking([])
    writer = SocketWriter(cast(socket, target))
    writer.add([b"x"] * 5000)
    assert writer.write()
    assert target.taken == b"x" * 5000
    assert 100 <= target.most_parts <= 1024


def test_nothing_at_all_is_written_at_once() -> None:
    """Without parts there is nothing to wait for."""
    target = Taking([])
    assert SocketWriter(cast(socket, target)).write()
    assert target.taken == b""


def test_a_full_socket_is_gone_on_with_when_it_has_been_read() -> None:
    """With a socket of the system: half-way through a part of several megabytes, and again."""
    ours, theirs = socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.settimeout(10)
        ours.setsockopt(SOL_SOCKET, SO_SNDBUF, 1 << 16)
        writer = SocketWriter(ours)
        content = bytes(range(256)) * 20_000
        writer.add([content, b"and the end"])
        received = bytearray()
        while not writer.write():
            assert writer.waiting_bytes > 0
            received += theirs.recv(1 << 20)
        while len(received) < len(content) + 11:
            received += theirs.recv(1 << 20)
        assert received == content + b"and the end"


def test_a_peer_that_has_gone_is_an_error() -> None:
    """Of the operating system's own kind; and it is one again the next time."""
    ours, theirs = socketpair()
    with ours:
        theirs.close()
        writer = SocketWriter(ours)
        writer.add([b"for nobody"])
        for _ in range(2):
            with pytest.raises(BrokenPipeError):
                writer.write()
