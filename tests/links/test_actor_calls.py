"""Links over Ray actor calls."""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray

from tests.links.conformance import LinkConformance
from tests.links.link_kind import DEADLINE_S, Task, letter
from tests.links.peer_conformance import PeerConformance
from tests.links.ray_kind import RayKind
from tests.links.receiver_conformance import ReceiverConformance
from tidewheel.runtime.messages.envelope import ENVELOPES, Envelope
from tidewheel.transport.link import PeerLost
from tidewheel.transport.ray_link import CallReceiver, FetchReceiver, Mail, RaySender
from tidewheel.transport.socket_address import DRIVER

KIND = RayKind()


@pytest.fixture(scope="module")
def actors(ray_cluster: str) -> Iterator[None]:
    """Start the actors, and end them when all tests of this file are done."""
    KIND.start()
    yield
    KIND.stop()


@pytest.mark.ray
@pytest.mark.usefixtures("actors")
class TestLink(LinkConformance):
    kind = KIND


@pytest.mark.ray
@pytest.mark.usefixtures("actors")
class TestPeers(PeerConformance):
    kind = KIND


class TestReceiver(ReceiverConformance):
    def make(self) -> CallReceiver[Envelope]:
        return CallReceiver[Envelope]()


class TestFetching(ReceiverConformance):
    def make(self) -> FetchReceiver[Envelope]:
        return FetchReceiver[Envelope]([], "", DRIVER, ENVELOPES)


class Post:
    """The calls of an actor that has mail: each is answered when the test says so."""

    def __init__(self) -> None:
        self.mail = Mail[Envelope](ENVELOPES)
        self.calls: list[Future[Any]] = []
        self.fetch = SimpleNamespace(remote=self._fetch)

    def _fetch(self, job: str, member: int, timeout_s: float) -> Any:
        self.calls.append(Future())
        return SimpleNamespace(future=lambda: self.calls[-1])

    def deliver(self) -> None:
        """Answer the call that waits."""
        self.calls[-1].set_result(self.mail.fetch(DRIVER, DEADLINE_S))


def test_a_member_that_is_no_actor_fetches_its_mail() -> None:
    """One call waits at each peer, and the next begins when it is looked at what that has brought; nothing is lost."""
    posts = [Post(), Post()]
    with closing(FetchReceiver[Envelope](posts, "job", DRIVER, ENVELOPES)) as receiver:
        assert receiver.receive(0.0) == receiver.receive(0.0) == []
        assert [len(post.calls) for post in posts] == [1, 1]
        for number in range(3):
            posts[1].mail.send(DRIVER, letter(1, number, [number]))
            posts[1].mail.send(DRIVER + 1, letter(1, 0))
        posts[1].deliver()
        assert receiver.receive(DEADLINE_S) == [letter(1, number, [number]) for number in range(3)]
        assert receiver.receive(0.0) == []
        assert [len(post.calls) for post in posts] == [1, 2]
        posts[0].calls[0].set_exception(RuntimeError("it has died"))
        with pytest.raises(PeerLost, match="worker 0 cannot be reached: it has died"):
            receiver.receive(DEADLINE_S)


def test_mail_is_waited_for() -> None:
    """Whoever asks before there is any gets it at once when it comes; without any, nothing after the time."""
    mail = Mail[Envelope](ENVELOPES)
    assert mail.fetch(DRIVER, 0.01) == []
    sending = Task(lambda: mail.send(DRIVER, letter(0, 0)))
    assert len(mail.fetch(DRIVER, DEADLINE_S)) == 1
    sending.join()


@pytest.mark.ray
@pytest.mark.usefixtures("actors")
def test_large_arrays_cannot_be_written_to() -> None:
    """Ray lends large buffers from memory that others may read: their arrays are read-only; small ones are copied."""
    [address] = KIND.addresses(1)
    sender = RaySender[Envelope]([address], "", ENVELOPES)
    sender.send(0, letter(0, 0, np.arange(9), np.arange(20_000), np.arange(1_000_000)))
    assert ray.get(address.actor.writable.remote(address.test)) == [True, False, False]
