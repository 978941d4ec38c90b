"""A child and its parent: nothing waits for the other end, and little waits to be said."""

import gc
import select
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.exactly_once.linked import BUFFER_BYTES, knowledge, pair
from tests.kit.exactly_once.ranges import RANGES
from tests.laws.strategies import law_settings
from tests.links.open_files import open_files
from tests.waiting import eventually
from tidewheel.pubsub.messages import frames
from tidewheel.pubsub.messages.delivery_messages import Ack, ConsolidatedAck, Downstream, Nack, Ranges
from tidewheel.pubsub.messages.frames import CODEC, MOST_NACKED_RANGES, ChildMessage, Join, decode_upstream
from tidewheel.pubsub.messages.tick_set import FOREVER, TickSet
from tidewheel.pubsub.messages.wire import Rejected
from tidewheel.transport.frames import FrameReader
from tidewheel.transport.stream_link import HAS_GONE, ParentLink

NAMES = st.sampled_from(["a", "b"])
MESSAGES = st.one_of(
    st.builds(Nack, st.integers(0, 2), st.lists(RANGES, max_size=3).map(tuple), st.integers(1, 99)),
    st.builds(Ack, st.integers(0, 2), st.dictionaries(NAMES, st.lists(RANGES, max_size=3).map(tuple))),
    st.builds(Join, NAMES, st.none()),
)


@pytest.fixture
def ends() -> Iterator[tuple[ParentLink, socket.socket]]:
    """A link, and the parent's end of its connection."""
    with pair() as (ours, theirs), closing(ParentLink(CODEC, ours)) as link:
        yield link, theirs


def hear(parent: socket.socket) -> list[ChildMessage]:
    """Return what a parent is said, as far as it has come."""
    return list(FrameReader(parent, decode_upstream).read())


def bytes_of(messages: Iterable[Downstream]) -> bytes:
    return b"".join(bytes(memoryview(part)) for message in messages for part in frames.encode(message))


def tell(parent: socket.socket, messages: Iterable[Downstream]) -> None:
    parent.sendall(bytes_of(messages))


def fill(link: ParentLink) -> int:
    """Say something until the connection takes no more; return how often."""
    said = 0
    while not link.is_waiting:
        link.say([Ack(9, {"filler": ((0, said + 1),)})])
        said += 1
    return said


def hear_all(link: ParentLink, parent: socket.socket) -> list[ChildMessage]:
    """Let everything through that waits; return it."""
    reader = FrameReader(parent, decode_upstream)
    heard: list[ChildMessage] = []
    while link.is_waiting:
        heard += reader.read()
        assert link.read() == []
    return heard + list(reader.read())


def meaning(messages: Iterable[ChildMessage]) -> tuple[Join | None, dict[int, tuple[TickSet, int]], dict[str, Ranges]]:
    """Return what a parent knows that has heard some messages: all that was asked, and the newest of the rest."""
    joined: Join | None = None
    nacks: dict[int, tuple[TickSet, int]] = {}
    acks: dict[str, Ranges] = {}
    for message in messages:
        match message:
            case Join():
                joined = message
            case Nack(pubend, ranges, room_bytes):
                asked = nacks[pubend][0] if pubend in nacks else TickSet()
                nacks[pubend] = (TickSet([*asked, *ranges]), room_bytes)
            case Ack(pubend, by_name):
                acks |= {f"{pubend} {name}": ranges for name, ranges in by_name.items()}
    return joined, nacks, acks


def test_both_hear_what_the_other_says(ends: tuple[ParentLink, socket.socket]) -> None:
    """At once, and the link can be polled."""
    link, parent = ends
    told: list[Downstream] = [knowledge(1, 10), Rejected(1, "no"), knowledge(2, 40_000)]
    said: list[ChildMessage] = [Join("a child", None), Nack(0, ((0, FOREVER),), 7), Ack(0, {"name": ((0, 4),)})]
    assert not select.select([link], [], [], 0)[0]
    assert link.read() == []
    tell(parent, told)
    assert select.select([link], [], [], 0)[0] == [link]
    assert link.read() == told
    link.say(said)
    assert hear(parent) == said
    assert not link.is_waiting
    assert not link.is_lost


@law_settings(100)
@given(st.lists(MESSAGES, max_size=30))
def test_what_waits_says_the_same_in_fewer_words(messages: list[ChildMessage]) -> None:
    """While a parent does not read: who one is, one nack and one ack of each pubend, the newest acks only."""
    with pair(4096) as (ours, theirs), closing(ParentLink(CODEC, ours)) as link:
        fillers = fill(link)
        for message in messages:
            link.say([message])
        heard = hear_all(link, theirs)
    rest = heard[fillers:]
    assert meaning(rest) == meaning(messages)
    assert [type(one) for one in rest] == sorted((type(one) for one in rest), key=[Join, Nack, Ack].index)
    assert len(rest) <= 1 + 3 + 3
    assert all(isinstance(one, Ack) for one in heard[:fillers])


def test_newer_acks_replace_older_ones(ends: tuple[ParentLink, socket.socket]) -> None:
    """Thousands of them for a parent that does not read: no more waits than of one, and nobody waits."""
    link, parent = ends
    fillers = fill(link)
    waiting = link._writer.waiting_bytes
    for end in range(1, 5001):
        link.say([Ack(0, {"billing": ((0, end),)}), Ack(0, {"audit": ((0, 2 * end),)}), Ack(1, {"billing": ((0, 1),)})])
    assert link._writer.waiting_bytes == waiting < BUFFER_BYTES
    rest = hear_all(link, parent)[fillers:]
    assert rest == [Ack(0, {"billing": ((0, 5000),), "audit": ((0, 10_000),)}), Ack(1, {"billing": ((0, 1),)})]


def test_newer_consolidated_acks_replace_older_ones(ends: tuple[ParentLink, socket.socket]) -> None:
    """With all names of readers that were to be said; one that names all readers says everything."""
    link, parent = ends
    fillers = fill(link)
    link.say([ConsolidatedAck(0, 1, 1, 1, {"old": True}, is_all=False)])
    link.say([ConsolidatedAck(0, 2, 2, 2, {"a": True, "b": True}, is_all=True)])
    link.say([ConsolidatedAck(0, 3, 3, 3, {"b": False, "c": True})])
    link.say([ConsolidatedAck(1, 4, 4, 4, {"d": True})])
    rest = hear_all(link, parent)[fillers:]
    named = {"a": True, "b": False, "c": True}
    assert rest == [ConsolidatedAck(0, 3, 3, 3, named, is_all=True), ConsolidatedAck(1, 4, 4, 4, {"d": True})]


def test_nacks_of_one_pubend_become_one(ends: tuple[ParentLink, socket.socket]) -> None:
    """For all that each of them asks, and with the room of the newest."""
    link, parent = ends
    fillers = fill(link)
    for number in range(1000):
        link.say([Nack(0, ((number, number + 5),), 1000 - number), Nack(1, ((9 - number % 10, 10),), 7)])
    assert hear_all(link, parent)[fillers:] == [Nack(0, ((0, 1004),), 1), Nack(1, ((0, 10),), 7)]


def test_too_many_nacks_become_the_newest(ends: tuple[ParentLink, socket.socket]) -> None:
    """What was asked before is asked again when no answer comes, so memory need not grow with it."""
    link, parent = ends
    fillers = fill(link)
    many = tuple((3 * n, 3 * n + 1) for n in range(MOST_NACKED_RANGES))
    link.say([Nack(0, many, 5), Nack(1, ((0, 9),), 5)])
    link.say([Nack(0, ((FOREVER - 1, FOREVER),), 6)])
    assert hear_all(link, parent)[fillers:] == [Nack(0, ((FOREVER - 1, FOREVER),), 6), Nack(1, ((0, 9),), 5)]


def test_reading_goes_on_with_saying(ends: tuple[ParentLink, socket.socket]) -> None:
    """Who only ever reads gets rid of what waits, as the parent takes it."""
    link, parent = ends
    fillers = fill(link)
    tell(parent, [knowledge(1, 10)])
    assert link.read() == [knowledge(1, 10)]
    reader = FrameReader(parent, decode_upstream)
    heard = list(reader.read())
    assert link.read() == []
    assert not link.is_waiting
    assert len(heard) + len(list(reader.read())) == fillers


@pytest.mark.parametrize("cut_at", [0, 1, 11, 12, 40, 100, 20_000])
def test_a_parent_that_goes_in_the_middle(ends: tuple[ParentLink, socket.socket], cut_at: int) -> None:
    """What was whole has come, then the link is lost, and whatever is said then goes nowhere."""
    link, parent = ends
    tell(parent, [knowledge(1, 10)])
    parent.sendall(bytes_of([knowledge(2, 30_000)])[:cut_at])
    parent.close()
    assert link.read() == [knowledge(1, 10)]
    assert link.read() == []
    assert link.is_lost
    assert link.why_lost == HAS_GONE
    link.say([Ack(0, {"name": ((0, 1),)})])
    assert link.read() == []
    assert not link.is_waiting


def test_what_a_parent_told_before_it_went_is_not_lost() -> None:
    """Even if the child notices first by what it cannot say, and however often it has to read to have all."""
    messages: list[Downstream] = [knowledge(tick, 9000) for tick in range(5)]
    with pair() as (ours, parent), closing(ParentLink(CODEC, ours, most_at_once=10_000)) as link:
        tell(parent, messages)
        parent.close()
        for end in range(100):
            link.say([Ack(0, {"name": ((0, end),)})])
        assert (link.is_waiting, link.is_lost) == (False, False)
        told: list[Downstream] = []
        for _ in range(10):
            told += link.read()
        assert told == messages
        assert link.why_lost == HAS_GONE


def test_a_parent_that_has_not_read_everything_when_it_goes(ends: tuple[ParentLink, socket.socket]) -> None:
    """Leaves an error behind in the connection, which says no more than that it has gone."""
    link, parent = ends
    fill(link)
    parent.close()
    assert link.read() == []
    assert link.why_lost == HAS_GONE


def test_a_parent_that_does_not_listen_any_more_is_lost(ends: tuple[ParentLink, socket.socket]) -> None:
    """Though it has not closed its end."""
    link, parent = ends
    parent.shutdown(socket.SHUT_RD)
    link.say([Ack(0, {"name": ((0, 1),)})])
    assert link.read() == []
    assert link.why_lost == HAS_GONE


@pytest.mark.parametrize(
    ("garbage", "text"),
    [
        (b"\xff" * 12, "head would be 4294967295 bytes"),
        (struct.pack("<IQ", 4, 1 << 40) + b"head", "its payload would be 1099511627776 bytes"),
        (struct.pack("<IQ", 4, 0) + b"head", "no message of a topic"),
    ],
    ids=["long head", "long payload", "no head"],
)
def test_a_parent_that_makes_no_sense_is_lost(
    ends: tuple[ParentLink, socket.socket], garbage: bytes, text: str
) -> None:
    """After what it told before, and with the reason."""
    link, parent = ends
    tell(parent, [knowledge(1, 10)])
    parent.sendall(garbage)
    assert link.read() == [knowledge(1, 10)]
    assert link.is_lost
    assert text in link.why_lost
    tell(parent, [knowledge(2, 10)])
    assert link.read() == []
    link.close()
    assert text in link.why_lost


def test_nothing_is_left_of_a_link_that_is_closed() -> None:
    """Whatever waited; the parent sees that it has gone, and closing it again does nothing."""
    gc.collect()
    before = open_files()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    link = ParentLink(CODEC, ours)
    fill(link)
    link.close()
    link.close()
    assert link.is_lost
    assert link.read() == []
    link.say([Ack(0, {"name": ((0, 1),)})])
    with theirs:
        assert eventually(lambda: not theirs.recv(1 << 20))
    assert open_files() == before
