"""A parent and its children: none of them holds up another, and none costs more memory than the bound."""

import gc
import socket
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.kit.exactly_once.linked import TurnedLoop, knowledge
from tests.links.open_files import open_files
from tidewheel.pubsub.messages import frames
from tidewheel.pubsub.messages.delivery_messages import Ack, Downstream, KnowledgeMessage, Nack
from tidewheel.pubsub.messages.frames import CODEC, ChildMessage, Join
from tidewheel.pubsub.messages.wire import Rejected
from tidewheel.transport import stream_link
from tidewheel.transport.frames import SIGN_OF_LIFE
from tidewheel.transport.stream_link import HAS_GONE, ParentLink

BOUND = 200_000
SAID: list[ChildMessage] = [
    Join("a child", None),
    Nack(0, ((5, 9),), 1000),
    Ack(1, {"name": ((0, 5),)}),
    Nack(1, ((7, 8),), 1000),
]


@pytest.fixture
def loop() -> Iterator[TurnedLoop]:
    with TurnedLoop() as running:
        yield running


def said(messages: list[ChildMessage]) -> bytes:
    return b"".join(part for message in messages for part in frames.encode(message))


def ticks(messages: list[Downstream]) -> list[int]:
    return [tick for one in messages if isinstance(one, KnowledgeMessage) for tick, _ in one.data]


def test_children_are_told_everything_in_order(loop: TurnedLoop) -> None:
    """Small and large, while they read."""
    children = [loop.child() for _ in range(3)]
    parents = [ParentLink(CODEC, child.end) for child in children]
    told: list[list[Downstream]] = [[] for _ in parents]
    messages = [knowledge(tick, [1, 3000, 70_000][tick % 3]) for tick in range(100)]
    for message in messages:
        assert all(child.tell(message) for child in children)
        loop.turn()
        for heard, parent in zip(told, parents, strict=True):
            heard.extend(parent.read())
    loop.turn_until(lambda: not any(child.link.waiting_bytes for child in children))
    for heard, parent in zip(told, parents, strict=True):
        heard.extend(parent.read())
        assert heard == messages
    assert not any(child.link.dropped for child in children)


def test_what_is_told_now_is_written_within_the_call(loop: TurnedLoop) -> None:
    """In order, without a turn of the loop; a single child needs no frames kept for others."""
    child = loop.child()
    parent = ParentLink(CODEC, child.end)
    messages = [knowledge(tick, 3000) for tick in range(3)]
    child.link.tell_now(messages)
    assert parent.read() == messages
    assert not len(loop.frames)


def test_who_does_not_read_is_told_no_more(loop: TurnedLoop) -> None:
    """Of what it does not take no more than the bound waits, the rest is counted, and others do not notice."""
    stuck, reads = loop.child(BOUND), loop.child(BOUND)
    parent = ParentLink(CODEC, reads.end)
    heard: list[Downstream] = []
    told: dict[int, bool] = {}
    messages = [knowledge(tick, 10_000 + tick) for tick in range(200)]
    for tick, message in enumerate(messages):
        told[tick] = stuck.tell(message)
        assert reads.tell(message)
        loop.turn()
        heard.extend(parent.read())
        assert stuck.link.waiting_bytes <= BOUND
    assert loop.waits_to_write()
    assert heard == messages
    assert 10 < sum(told.values()) < 100
    assert stuck.link.dropped == 200 - sum(told.values())
    whole = sum(len(part) for message in messages for part in frames.encode(message))
    assert stuck.link.dropped_bytes + stuck.link.waiting_bytes + stuck.link.written_bytes == whole
    assert reads.link.dropped == 0

    late = ParentLink(CODEC, stuck.end)
    caught_up: list[Downstream] = []

    def has_all() -> bool:
        caught_up.extend(late.read())
        return not stuck.link.waiting_bytes

    loop.turn_until(has_all)
    assert stuck.tell(messages[0])
    loop.turn()
    caught_up += late.read()
    assert ticks(caught_up) == [*(tick for tick, is_told in told.items() if is_told), 0]
    assert not late.is_lost
    assert not loop.waits_to_write()


def test_small_ones_fit_where_large_ones_do_not(loop: TurnedLoop) -> None:
    """What is dropped is what there is no room for; after it comes what there is room for."""
    child = loop.child(BOUND)
    while child.tell(knowledge(1, BOUND // 2)):
        loop.turn()
    assert child.tell(knowledge(2, 10))


def test_what_is_larger_than_the_bound_goes_alone(loop: TurnedLoop) -> None:
    """When nothing else waits; otherwise it could never be told."""
    child = loop.child(BOUND)
    parent = ParentLink(CODEC, child.end)
    heard: list[Downstream] = []
    message = knowledge(1, 3 * BOUND)
    assert child.tell(message)
    assert not child.tell(knowledge(2, 10))

    def has_all() -> bool:
        heard.extend(parent.read())
        return bool(heard)

    loop.turn_until(has_all)
    assert heard == [message]
    assert child.tell(knowledge(3, 10))


def test_a_burst_that_the_connection_takes_is_not_dropped(loop: TurnedLoop) -> None:
    """More than the bound in one turn: it is written as soon as there is no more room."""
    child = loop.child(BOUND // 4, 4 << 20)
    messages = [knowledge(tick, 1000) for tick in range(100)]
    assert all(child.tell(message) for message in messages)
    loop.turn()
    assert ParentLink(CODEC, child.end).read() == messages


def test_a_rejection_is_not_dropped(loop: TurnedLoop) -> None:
    """Who misses it would wait for ever for more."""
    child = loop.child(BOUND)
    for size in (10_000, 1):
        while child.tell(knowledge(1, size)):
            loop.turn()
    rejection = Rejected(0, "no" * 100)
    assert child.tell(rejection)
    assert not child.tell(knowledge(2, 1))
    parent = ParentLink(CODEC, child.end)
    heard: list[Downstream] = []

    def is_told() -> bool:
        heard.extend(parent.read())
        return rejection in heard

    loop.turn_until(is_told)
    assert heard[-1] == rejection


def test_what_many_are_told_is_encoded_once(loop: TurnedLoop) -> None:
    """A message that goes to many is encoded for the first; nothing is kept for longer than a turn."""
    encoded: list[object] = []

    def encode(message: Downstream) -> list[Any]:
        encoded.append(message)
        return frames.encode(message)

    loop.frames.codec = replace(CODEC, encode=encode)
    children = [loop.child() for _ in range(20)]
    messages = [knowledge(tick, 100) for tick in range(3)]
    for message in messages:
        for child in children:
            child.tell(message)
    assert encoded == messages
    loop.turn()
    loop.turn()
    assert len(loop.frames) == 0
    for child in children:
        assert ParentLink(CODEC, child.end).read() == messages
    for tick in range(2 * stream_link._MOST_FRAMES):
        children[0].tell(knowledge(tick, 100))
    assert len(loop.frames) == stream_link._MOST_FRAMES


def test_what_a_child_says_is_handed_on(loop: TurnedLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, however it comes, and however much of it: others have their turn in between."""
    monkeypatch.setattr(stream_link, "_AT_ONCE_BYTES", 1000)
    child = loop.child(buffer_bytes=4 << 20)
    content = said(SAID)
    for begin in range(0, len(content), 7):
        child.end.send(content[begin : begin + 7])
        loop.turn()
    assert child.said == SAID
    many = SAID * 500
    child.end.sendall(said(many))
    goes = 0
    while len(child.said) < len(many) + len(SAID):
        loop.turn()
        goes += 1
    assert child.said == SAID + many
    assert goes > 1  # a go takes all of a buffer of 32 KiB
    assert not child.gone


def test_who_goes_is_named_once(loop: TurnedLoop) -> None:
    """After what it said before it went; and the connection is let go of."""
    child, stays = loop.child(), loop.child()
    child.end.send(said(SAID) + said(SAID)[:5])
    child.end.close()
    loop.turn_until(lambda: bool(child.gone))
    loop.turn()
    assert (child.said, child.gone) == (SAID, [HAS_GONE])
    assert loop.watched() == 1
    assert not child.tell(knowledge(1, 10))
    assert child.link.dropped == 1
    assert not stays.gone


@pytest.mark.parametrize("has_unread", [False, True], ids=["read all", "read nothing"])
def test_who_has_gone_is_found_out_by_telling_it(loop: TurnedLoop, *, has_unread: bool) -> None:
    """In the middle of a backlog: what it said before is heard, and nobody is told within the call."""
    child = loop.child()
    if has_unread:
        while not child.link.waiting_bytes:
            child.tell(knowledge(1, 10_000))
            loop.turn()
    child.end.send(said(SAID))
    child.end.close()
    for _ in range(200):
        child.tell(knowledge(1, 10_000))
    assert not child.gone
    loop.turn_until(lambda: bool(child.gone))
    loop.turn()
    assert child.gone == [HAS_GONE]
    if not has_unread:  # otherwise the system may have thrown it away
        assert child.said == SAID
    assert loop.watched() == 0


def test_a_child_that_does_not_listen_any_more_has_gone(loop: TurnedLoop) -> None:
    """Though it has not closed its end: there is nothing that it could be told."""
    child = loop.child()
    child.end.shutdown(socket.SHUT_RD)
    loop.turn()
    child.tell(knowledge(1, 10))
    loop.turn_until(lambda: bool(child.gone))
    assert child.gone == [HAS_GONE]
    assert loop.watched() == 0


@pytest.mark.parametrize(
    ("garbage", "text"),
    [
        (b"\xff" * 12, "head would be 4294967295 bytes"),
        (struct.pack("<IQ", 4, 1) + b"head", "its payload would be 1 bytes"),
        (struct.pack("<IQ", 4, 0) + b"head", "no message of a topic"),
        (b"".join(bytes(part) for part in frames.encode(KnowledgeMessage(0, ()))), "Invalid value 'K'"),
    ],
    ids=["long head", "payload", "no head", "knowledge"],
)
def test_who_says_what_makes_no_sense_is_let_go(loop: TurnedLoop, garbage: bytes, text: str) -> None:
    """After what it said before, and with the reason."""
    child = loop.child()
    child.end.send(said(SAID) + garbage)
    loop.turn_until(lambda: bool(child.gone))
    assert child.said == SAID
    assert len(child.gone) == 1
    assert text in child.gone[0]
    assert ParentLink(CODEC, child.end).read() == []
    assert loop.watched() == 0


def test_an_owner_may_close_the_link_when_it_hears_something(loop: TurnedLoop) -> None:
    """Then it is not told that the child has gone."""
    child = loop.child()
    child.closes_when_it_hears = True
    child.end.send(said(SAID) + b"\xff" * 12)
    child.end.close()
    loop.turn_until(lambda: bool(child.said))
    loop.turn()
    assert not child.gone
    assert loop.watched() == 0


def test_nothing_is_left_of_a_link_that_is_closed() -> None:
    """With a backlog, and in the middle of a turn."""
    gc.collect()
    before = open_files()
    with TurnedLoop() as loop:
        child = loop.child()
        while not child.link.waiting_bytes:
            child.tell(knowledge(1, 10_000))
            loop.turn()
        other = loop.child()
        other.tell(knowledge(1, 10))
        other.link.close()
        child.link.close()
        child.link.close()
        loop.turn()
        assert loop.watched() == 0
        assert (child.gone, other.gone) == ([], [])
    assert open_files() == before


def test_a_parent_with_nothing_to_tell_shows_that_it_lives(loop: TurnedLoop) -> None:
    """Where nothing else was written meanwhile, and the child reads; to the child that is no message."""
    child = loop.child()
    parent = ParentLink(CODEC, child.end)
    child.link.tell_now([knowledge(1, 10)])
    child.link.show_life()
    assert parent.read() == [knowledge(1, 10)]
    before = parent.read_bytes
    child.link.show_life()
    assert (parent.read(), parent.read_bytes) == ([], before + len(SIGN_OF_LIFE))
    stuck = loop.child(BOUND)
    stuck.link.tell_now([knowledge(2, 1_000_000)])
    waiting = stuck.link.waiting_bytes
    for _ in range(3):
        stuck.link.show_life()
    assert stuck.link.waiting_bytes == waiting > 0
