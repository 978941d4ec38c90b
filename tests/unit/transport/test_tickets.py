"""The right to connect to a publisher: with a ticket that is good, of the same user, on the same node."""

import logging
import os
import pickle
import secrets
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.kit.pubsub.actor_thread import DEADLINE_S, NODE, ActorThread, Offering, ended, epoch, subscription_of
from tests.links.open_files import open_files
from tests.waiting import eventually
from tidewheel.pubsub.messages import encoded_message, frames
from tidewheel.transport import tickets
from tidewheel.transport.tickets import TICKET_BYTES, SocketOffer, TicketListener

STRANGERS = tickets._MOST_STRANGERS
TIMEOUT_S = tickets._TICKET_TIMEOUT_S


@pytest.fixture
def publisher() -> Iterator[ActorThread]:
    with ActorThread() as running:
        yield running


def listener_of(publisher: ActorThread) -> TicketListener[str | None]:
    listener = publisher.partition.connections._listener
    assert listener is not None
    return listener


def offer_of(publisher: ActorThread, subscriber: str = "s") -> SocketOffer:
    offer = publisher.call(publisher.actor.attach(subscriber))
    assert offer is not None
    return offer


def call_at(offer: SocketOffer, said: bytes = b"") -> socket.socket:
    """Call at an address, and say something else than what is expected."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(DEADLINE_S)
    connection.connect(f"\0{offer.name}")
    with suppress(BrokenPipeError):  # it has been turned away already
        connection.sendall(said)
    return connection


def is_turned_away(connection: socket.socket) -> bool:
    """Wait for a connection to be closed at the other end, from where nothing may come."""
    with connection:
        try:
            return connection.recv(1) == b""
        except ConnectionResetError:
            return True


@pytest.fixture
def nothing_unpickled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail whoever unpickles what came over a socket."""

    def decode(*_: Any) -> None:
        raise AssertionError("this was not to be unpickled")

    for module in (frames, encoded_message):
        monkeypatch.setattr(module, "unpickled", decode)


@pytest.mark.usefixtures("nothing_unpickled")
@pytest.mark.parametrize(
    "said",
    [
        lambda ticket: secrets.token_bytes(TICKET_BYTES),
        lambda ticket: ticket[:-1],
        lambda ticket: ticket[: TICKET_BYTES // 2],
        lambda ticket: bytes([ticket[0] ^ 1]) + ticket[1:],
        lambda ticket: struct.pack("<IQ", 20, 0) + pickle.dumps(os.getcwd),
        lambda ticket: b"",
    ],
    ids=["another", "short", "half", "one byte wrong", "a frame", "silence"],
)
def test_who_shows_no_good_ticket_is_turned_away(publisher: ActorThread, said: Any) -> None:
    """At once, or after ten seconds of silence, and nothing of what it said is unpickled; the ticket stays good."""
    offer = offer_of(publisher)
    connection = call_at(offer, said(offer.ticket))
    if not said(offer.ticket):
        assert eventually(lambda: len(listener_of(publisher)._strangers) == 1)
        publisher.advance(TIMEOUT_S - 1)
        assert len(listener_of(publisher)._strangers) == 1
        publisher.advance(2)
    assert is_turned_away(connection)
    assert not listener_of(publisher)._strangers
    with call_at(offer, offer.ticket):
        assert eventually(lambda: len(publisher.partition.connections.children) == 1)


@pytest.mark.usefixtures("nothing_unpickled")
def test_a_ticket_is_good_once(publisher: ActorThread) -> None:
    """Who shows it again, while it is used or afterwards, is turned away; and who has used it notices nothing."""
    offer = offer_of(publisher)
    with call_at(offer, offer.ticket) as first:
        assert first.recv(1)
        assert is_turned_away(call_at(offer, offer.ticket))
        publisher.run(lambda: publisher.partition.take(epoch(0)))
        assert first.recv(1 << 16)
        assert publisher.statistics().subscribers == 1
    assert eventually(lambda: publisher.statistics().subscribers == 0)
    assert is_turned_away(call_at(offer, offer.ticket))


def test_a_ticket_is_for_one_purpose(publisher: ActorThread) -> None:
    """A subscriber's does not let anybody publish: what it says ends its own connection."""
    offer = offer_of(publisher)
    with call_at(offer, offer.ticket) as connection:
        assert connection.recv(1)
        connection.send(struct.pack("<IQ", 20, 0) + b"x" * 20)
        assert eventually(lambda: publisher.statistics().subscribers == 0)
    assert publisher.statistics().sequence == 0
    assert publisher.partition.error is None


@pytest.mark.parametrize("leaves", ["detach", "lease"])
def test_a_ticket_that_nobody_needs_is_good_no_more(publisher: ActorThread, leaves: str) -> None:
    """When its subscriber has left, or was given up."""
    offer = offer_of(publisher)
    if leaves == "detach":
        publisher.call(publisher.actor.detach("s"))
    else:
        publisher.advance(61)
        publisher.run(publisher.partition.go_on)
    assert is_turned_away(call_at(offer, offer.ticket))
    assert not listener_of(publisher)._tickets


def test_a_ticket_that_is_not_shown_expires(publisher: ActorThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a subscriber on another node, which calls instead; of many, none stays."""
    monkeypatch.setattr(tickets, "_GOOD_FOR_S", 0.05)
    offer_of(publisher)
    assert eventually(lambda: not listener_of(publisher)._tickets)


def test_tickets_cannot_be_guessed_nor_seen(publisher: ActorThread) -> None:
    """They are random, all different, and in no text."""
    offers = [offer_of(publisher, f"s{number}") for number in range(100)]
    assert len({offer.ticket for offer in offers}) == 100
    assert all(len(offer.ticket) == TICKET_BYTES for offer in offers)
    assert "ticket" not in repr(offers[0])
    assert offers[0].ticket.hex() not in repr(offers[0])


def test_strangers_who_say_nothing_keep_nobody_out(publisher: ActorThread) -> None:
    """Of any number only so many are kept, the last ones; who has a ticket gets in at once."""
    offer = offer_of(publisher)
    strangers = [call_at(offer) for _ in range(2 * STRANGERS)]
    try:
        assert all(map(is_turned_away, strangers[:STRANGERS]))
        assert eventually(lambda: len(listener_of(publisher)._strangers) == STRANGERS)
        with call_at(offer, offer.ticket) as connection:
            assert connection.recv(1)
        publisher.advance(TIMEOUT_S + 1)
        assert not listener_of(publisher)._strangers
    finally:
        for stranger in strangers:
            stranger.close()


def test_a_stranger_that_goes_is_forgotten(publisher: ActorThread) -> None:
    """Without waiting for ten seconds to be over."""
    offer = offer_of(publisher)
    connection = call_at(offer)
    assert eventually(lambda: len(listener_of(publisher)._strangers) == 1)
    connection.close()
    assert eventually(lambda: not listener_of(publisher)._strangers)


def test_another_user_is_turned_away(publisher: ActorThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it shows a good ticket, which is not even read."""
    offer = offer_of(publisher)
    monkeypatch.setattr(tickets, "is_same_user", lambda connection: False)
    assert is_turned_away(call_at(offer, offer.ticket))
    assert len(listener_of(publisher)._tickets) == 1


def test_who_is_the_same_user_is_what_the_system_says() -> None:
    """Not what the other end says."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert tickets.is_same_user(ours)
        patch = pytest.MonkeyPatch()
        with patch.context() as patched:
            patched.setattr(os, "getuid", lambda: 12345)
            assert not tickets.is_same_user(ours)


def test_a_caller_shows_nothing_to_another_user(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """Who listens where a publisher should be and is somebody else gets no ticket, and nothing of it is read."""
    listener, name = tickets._listen()
    with listener:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
        with caplog.at_level(logging.WARNING):
            assert SocketOffer(NODE, name, b"t" * TICKET_BYTES).connect(NODE) is None
        assert "another user listens there" in caplog.text
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.recv(TICKET_BYTES) == b""


def test_there_is_no_file(publisher: ActorThread, tmp_path: Path) -> None:
    """The address is a name in no folder, and no connection leaves anything open."""
    before = len(open_files())
    offer = offer_of(publisher)
    bound = [line for line in Path("/proc/net/unix").read_text().splitlines() if offer.name in line]
    assert bound
    assert all(line.split()[7] == f"@{offer.name}" for line in bound)
    publisher.reader("reads").release()
    assert eventually(lambda: len(open_files()) == before + 1)  # the one that listens
    publisher.die()
    assert len(open_files()) == before
    assert offer.name not in Path("/proc/net/unix").read_text()


def test_on_another_node_there_is_no_way(publisher: ActorThread) -> None:
    """Nothing is even tried."""
    assert offer_of(publisher).connect("that node") is None
    assert not listener_of(publisher)._strangers


def test_where_nobody_listens_there_is_no_way(publisher: ActorThread, caplog: Any) -> None:
    """It is logged, and calls have to do."""
    offer = offer_of(publisher)
    publisher.die()
    with caplog.at_level(logging.WARNING):
        assert offer.connect(NODE) is None
    assert "no socket to a publisher on this node, so Ray's calls have to do" in caplog.text


def test_a_publisher_that_may_open_no_more_files_accepts_again_later(
    publisher: ActorThread, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """It does not turn in circles meanwhile."""
    offer = offer_of(publisher)
    callers = listener_of(publisher)
    listener = callers._listener
    calls: list[int] = []

    class Full:
        def accept(self) -> None:
            calls.append(1)
            raise OSError(24, "Too many open files")

        def fileno(self) -> int:
            return listener.fileno()

    monkeypatch.setattr(callers, "_listener", Full())
    with caplog.at_level(logging.WARNING), call_at(offer, offer.ticket) as connection:
        assert eventually(lambda: "Too many open files" in caplog.text)
        publisher.run(lambda: None)
        publisher.run(lambda: None)
        assert len(calls) == 1
        monkeypatch.undo()
        publisher.advance(1.1)
        assert connection.recv(1)


def test_a_subscriber_over_a_socket_needs_no_more_than_its_offer(publisher: ActorThread) -> None:
    """What travels to it through Ray is plain, and lets it connect."""
    offer = pickle.loads(pickle.dumps(publisher.call(publisher.actor.attach("s"))))
    with subscription_of([Offering(offer)], "s") as subscription:
        feed = publisher.feed()
        feed.send([*epoch(0), ended(1)])
        feed.finish()
        assert [one.time for one in subscription.epochs(timeout_s=DEADLINE_S)] == [0]
