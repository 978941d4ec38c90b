"""The short way within a node: what is small goes as a datagram, and what is refused goes the other way."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.links.link_kind import DEADLINE_S, Arrivals, letter, within
from tidewheel.runtime.messages.envelope import ENVELOPES
from tidewheel.transport.socket_address import SocketKeys
from tidewheel.transport.socket_link import LARGEST_DATAGRAM as LARGEST
from tidewheel.transport.socket_link import DatagramReceiver, DatagramSender, SocketReceiver, SocketSender
from tidewheel.transport.socket_listener import SocketListener, datagram_socket


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "d")


@pytest.fixture
def receiver(path: str) -> Iterator[DatagramReceiver]:
    with datagram_socket() as bound:
        bound.bind(path)
        yield DatagramReceiver(bound)


def test_what_is_sent_comes_whole_and_in_order(receiver: DatagramReceiver, path: str) -> None:
    """Up to the largest size, and nothing of it is cut off."""
    frames = [bytes([number]) * size for number, size in enumerate([1, 100, LARGEST - 1, LARGEST])]
    with closing(DatagramSender(path)) as sender:
        assert all(map(sender.send, frames))
        assert receiver.receive() == frames


def test_what_is_too_large_is_left_to_others(receiver: DatagramReceiver, path: str) -> None:
    """It is not cut off but refused."""
    with closing(DatagramSender(path)) as sender:
        assert not sender.send(b"x" * (LARGEST + 1))
        assert sender.send(b"small")
    assert receiver.receive() == [b"small"]


def test_a_slow_receiver_refuses_and_takes_again(receiver: DatagramReceiver, path: str) -> None:
    """Sending never waits: what finds no room is refused, so that it can go another way."""
    with closing(DatagramSender(path)) as sender:
        taken = 0
        while sender.send(b"%d" % taken):
            taken += 1
        assert receiver.receive() == [b"%d" % number for number in range(taken)]
        assert sender.send(b"again")
    assert receiver.receive() == [b"again"]


def test_a_peer_that_is_gone_refuses(path: str) -> None:
    """Whether it was never there or has gone; how it fares shows in the other connection."""
    with closing(DatagramSender(path)) as early:
        assert not early.send(b"to nobody")
    peer = datagram_socket()
    peer.bind(path)
    with closing(DatagramSender(path)) as sender:
        assert sender.send(b"to somebody")
        peer.close()
        assert not sender.send(b"to nobody")


def test_a_small_envelope_is_there_when_send_returns(tmp_path: Path) -> None:
    """No other thread has to run first, so a receiver that does not wait finds it."""
    with closing(SocketReceiver(SocketListener("a"), ENVELOPES)) as receiver:
        sender = SocketSender(1, "a", {0: receiver.listener.address}, SocketKeys.make(), 7, ENVELOPES)
        with closing(sender):
            receiver.meet([1], DEADLINE_S)
            for sequence in range(100):
                sender.send(0, letter(1, sequence, [sequence]))
                assert receiver.receive(0.0) == [letter(1, sequence, [sequence])]


def test_small_envelopes_that_overtake_large_ones_come_in_order_in_the_end() -> None:
    """Large and small ones take different ways; their numbers put them in order again, and none is lost."""
    with closing(SocketReceiver(SocketListener("a"), ENVELOPES)) as receiver:
        sender = SocketSender(1, "a", {0: receiver.listener.address}, SocketKeys.make(), 7, ENVELOPES)
        with closing(sender):
            receiver.meet([1], DEADLINE_S)
            sizes = [1 if number % 3 else 10 * LARGEST for number in range(300)]
            for sequence, size in enumerate(sizes):
                sender.send(0, letter(1, sequence, b"x" * size))
            arrivals = Arrivals(receiver).take(len(sizes))
    assert [len(batch) for batch in arrivals.batches] == sizes
    assert [envelope.sequence for envelope in arrivals.raw] != list(range(300)), "none has overtaken another"


def test_a_wake_up_is_seen_beside_datagrams() -> None:
    """A wake-up and a datagram come by different ways; waiting for either ends at both."""
    with closing(SocketReceiver(SocketListener("a"), ENVELOPES)) as receiver:
        sender = SocketSender(1, "a", {0: receiver.listener.address}, SocketKeys.make(), 7, ENVELOPES)
        with closing(sender):
            receiver.meet([1], DEADLINE_S)
            receiver.wake()
            sender.send(0, letter(1, 0, [1]))
            assert Arrivals(receiver).take(1).raw == [letter(1, 0, [1])]
            receiver.wake()
            within(DEADLINE_S / 2, lambda: receiver.receive(DEADLINE_S))
