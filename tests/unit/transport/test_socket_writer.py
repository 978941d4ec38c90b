"""The writer of a socket: bytes that arrive whole and in order, and do not change before the peer has read them."""

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from socket import AF_INET, SO_SNDBUF, SOL_SOCKET, socket, socketpair
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.pubsub.log.payload_area import PayloadArea
from tidewheel.transport.socket_writer import LARGE, SocketWriter

KINDS = (bytes, bytearray, memoryview, pa.py_buffer)
writable = st.builds(lambda kind, content: kind(content), st.sampled_from(KINDS), st.binary(max_size=50))


def joined(found: Sequence[Any]) -> bytes:
    return b"".join(bytes(memoryview(part)) for part in found)


class Taking:
    """A socket that takes so many bytes at a time, none where it is 0."""

    def __init__(self, counts: Sequence[int]) -> None:
        self._counts = list(counts)
        self.taken = b""
        self.most_parts = 0
        self.family = AF_INET

    def sendmsg(self, found: Sequence[Any]) -> int:
        self.most_parts = max(self.most_parts, len(found))
        count = self._counts.pop(0) if self._counts else 10**9
        if not count:
            raise BlockingIOError(errno.EAGAIN, "it takes no more")
        whole = joined(found)
        assert whole, "there is no need to write nothing"
        self.taken += whole[:count]
        return min(count, len(whole))


@given(st.lists(st.lists(writable, max_size=5), max_size=6), st.lists(st.integers(0, 70), max_size=60))
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


@pytest.fixture
def area(tmp_path: Path) -> PayloadArea:
    """An area of a file that lends bytes."""
    path = tmp_path / "segment"
    path.write_bytes(bytes(16 * LARGE))
    descriptor = os.open(path, os.O_RDWR)
    try:
        made = PayloadArea(descriptor, 16 * LARGE)
    finally:
        os.close(descriptor)
    made.open(0, 16 * LARGE)
    return made


@pytest.fixture
def connection() -> Iterator[tuple[socket, socket]]:
    """Two ends, the first of which does not block and the second of which waits ten seconds at most."""
    ours, theirs = socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.settimeout(10)
        yield ours, theirs


def lent(area: PayloadArea, content: bytes) -> memoryview:
    found = area.lend(len(content))
    assert found is not None
    found[:] = content
    return found


def read(theirs: socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        received += theirs.recv(size - len(received))
    return bytes(received)


def test_parts_of_files_arrive_among_others(area: PayloadArea, connection: tuple[socket, socket]) -> None:
    """Large and small ones, and slices of these, however the socket cuts them."""
    ours, theirs = connection
    random = Random(7)
    parts = [lent(area, random.randbytes(size)) for size in (LARGE, 3 * LARGE + 5, LARGE - 1, 2 * LARGE)]
    parts[1] = parts[1][2:-1]
    whole = b"".join(b"head" + bytes(part) for part in parts)
    writer = SocketWriter(ours)
    writer.add(one for part in parts for one in (b"head", part))
    received = b""
    while not writer.write():
        received += theirs.recv(1 << 20)
    assert received + read(theirs, len(whole) - len(received)) == whole
    assert (writer.written_bytes, writer.waiting_bytes) == (len(whole), 0)


def test_a_part_is_lent_until_the_peer_has_read_it(area: PayloadArea, connection: tuple[socket, socket]) -> None:
    """Though nobody else refers to it, and the socket has taken it."""
    ours, theirs = connection
    content = Random(8).randbytes(LARGE)
    writer = SocketWriter(ours)
    writer.add([lent(area, content)])
    assert writer.write()
    assert writer.write()
    assert area.is_lent
    assert read(theirs, LARGE - 1) == content[:-1]
    assert writer.write()
    assert area.is_lent
    assert read(theirs, 1) == content[-1:]
    assert writer.write()
    assert not area.is_lent


@pytest.mark.parametrize("is_read", [True, False])
def test_what_a_closed_connection_may_have_is_lent_for_good(
    area: PayloadArea, connection: tuple[socket, socket], is_read: bool
) -> None:
    """As the peer can read it at any time; what it has read is not."""
    ours, theirs = connection
    content = Random(9).randbytes(LARGE)
    writer = SocketWriter(ours)
    writer.add([lent(area, content)])
    assert writer.write()
    if is_read:
        assert read(theirs, LARGE) == content
    writer.close()
    assert area.is_lent is not is_read
    if not is_read:
        assert read(theirs, LARGE) == content
    assert theirs.recv(1) == b""


def test_a_peer_that_goes_has_nothing_any_more(area: PayloadArea, connection: tuple[socket, socket]) -> None:
    """So its memory may be used again."""
    ours, theirs = connection
    writer = SocketWriter(ours)
    writer.add([lent(area, bytes(LARGE))])
    assert writer.write()
    theirs.close()
    writer.close()
    assert not area.is_lent
