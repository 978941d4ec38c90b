"""Several pubends as one parent."""

import select
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.kit.exactly_once.linked import pair
from tests.waiting import eventually
from tidewheel.pubsub.exactly_once.codec import CODEC
from tidewheel.pubsub.exactly_once.frames import ChildMessage, Join, decode_upstream, encode
from tidewheel.pubsub.exactly_once.messages import Ack, Downstream, KnowledgeMessage, Nack
from tidewheel.pubsub.subscribers import many_parents
from tidewheel.pubsub.subscribers.many_parents import ManyParents, find_pubends
from tidewheel.pubsub.subscribers.parents import Parent, ParentGone
from tidewheel.transport.frames import FrameReader
from tidewheel.transport.stream_link import ParentLink

NUMBERS = range(3)


class Ends:
    """The other ends of connections to pubends, and those of which there is more to come."""

    def __init__(self, stack: ExitStack) -> None:
        pairs = [stack.enter_context(pair(4096)) for _ in NUMBERS]
        self._ends = [end for _, end in pairs]
        self._readers = [FrameReader(end, decode_upstream) for end in self._ends]
        self.needed = set(NUMBERS)
        links: dict[int, Parent] = {number: ParentLink(CODEC, ours) for number, (ours, _) in enumerate(pairs)}
        self.parents = ManyParents(links, self.needed.__contains__)
        stack.callback(self.parents.close)

    def tell(self, number: int, message: Downstream) -> None:
        self._ends[number].sendall(b"".join(encode(message)))

    def heard(self, number: int) -> list[ChildMessage]:
        return list(self._readers[number].read())

    def leave(self, number: int) -> None:
        self._ends[number].close()

    def why_lost(self) -> str:
        return self.parents.why_lost

    def is_ready(self) -> bool:
        """Tell whether who polls for reading finds something to do."""
        poll = select.poll()
        poll.register(self.parents.fileno(), select.POLLIN)
        return bool(poll.poll(0))


@pytest.fixture
def ends() -> Iterator[Ends]:
    with ExitStack() as stack:
        yield Ends(stack)


def known(number: int) -> KnowledgeMessage:
    return KnowledgeMessage(number, ((0, 5),))


def test_each_is_told_what_is_for_it(ends: Ends) -> None:
    """And all of them who one is; what they tell comes out of one."""
    ends.parents.say([Join("child", None), Nack(1, ((0, 5),), 10), Ack(2, {})])
    assert [ends.heard(number)[1:] for number in NUMBERS] == [[], [Nack(1, ((0, 5),), 10)], [Ack(2, {})]]
    assert not ends.is_ready()
    for number in (2, 0):
        ends.tell(number, known(number))
    assert ends.is_ready()
    assert ends.parents.read() == [known(0), known(2)]
    assert not ends.is_ready()


def test_it_is_lost_with_the_first_that_is_needed(ends: Ends) -> None:
    """What that has told before is returned; one from which there is no more to come may go."""
    ends.needed.discard(0)
    ends.leave(0)
    assert ends.is_ready()
    assert ends.parents.read() == []
    assert not ends.is_ready()
    assert not ends.why_lost()
    ends.parents.say([Ack(0, {}), Ack(1, {})])
    assert ends.heard(1) == [Ack(1, {})]
    ends.tell(1, known(1))
    ends.leave(1)
    assert ends.parents.read() == [known(1)]
    assert ends.is_ready()
    assert ends.parents.read() == []
    assert ends.why_lost() == "pubend 1: it has gone"


def test_what_a_pubend_does_not_take_is_written_when_it_does(ends: Ends) -> None:
    """Who polls for reading alone finds that there is something to do."""
    long_acks = [Ack(1, {f"{number}" * 500: ((0, 5),)}) for number in range(200)]
    ends.parents.say(long_acks)
    assert not ends.is_ready()
    heard: list[Any] = []

    def is_all_heard() -> bool:
        heard.extend(ends.heard(1))
        if ends.is_ready():
            ends.parents.read()
        return sum(len(ack.acks) for ack in heard) == 200

    assert eventually(is_all_heard)
    assert not ends.is_ready()


def test_all_that_are_needed_are_found_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """If one does not answer the others are let go of."""
    closed: list[str] = []

    class Found:
        """A way to a pubend."""

        is_lost = is_waiting = False
        why_lost = ""

        def __init__(self, actor: str) -> None:
            self.close = lambda: closed.append(actor)

    def find(actor: str, child: str, node: str) -> Any:
        if actor == "dead":
            raise ParentGone("it is dead", is_for_good=True)
        return Found(actor)

    monkeypatch.setattr(many_parents, "find_parent", find)
    with pytest.raises(ParentGone, match="it is dead"):
        find_pubends(["a", "b", "dead"], "child", "here", lambda _: True)
    assert closed == ["a", "b"]
