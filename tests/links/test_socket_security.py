"""The security of sockets: a process without the keys of a job can neither send to its workers nor disturb them.

A worker listens on TCP, as between nodes; a good member is connected all the time and must not notice.
"""

import pickle
import random
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.links.attacks import ATTACKS, Victim
from tests.links.link_kind import DEADLINE_S, INCARNATION, Arrivals, Task, letter
from tests.links.open_files import listening_ports
from tests.links.socket_kinds import HOST
from tidewheel.host.process_memory import process_use
from tidewheel.progress import ProtocolError
from tidewheel.runtime.messages.envelope import ENVELOPES, Envelope
from tidewheel.transport.pieces import LARGEST_FRAME_BYTES
from tidewheel.transport.socket_address import SocketKeys
from tidewheel.transport.socket_link import SocketReceiver, SocketSender
from tidewheel.transport.socket_listener import SocketListener

MESSAGES = 50


class Forged:
    """Makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self._marker,)


class Site:
    """A worker that listens, a member of its job, and what an attacker knows of it."""

    def __init__(self, stack: ExitStack, marker: Path, seed: int) -> None:
        self.keys = SocketKeys.make()
        self.receiver = stack.enter_context(closing(SocketReceiver(SocketListener("a"), ENVELOPES)))
        self.address = self.receiver.listener.listen_to_other_nodes(HOST, self.keys)
        assert self.address.tcp is not None
        self.marker = marker
        port = int(self.address.tcp.rpartition(":")[2])
        forged = pickle.dumps(Forged(marker))
        self.victim = Victim(HOST, port, self.keys.listener_public, forged, random.Random(seed))
        self.arrivals = Arrivals(self.receiver)
        self._sent = 0

    def join(self, stack: ExitStack) -> SocketSender[Envelope]:
        """Connect as a member on another node."""
        return stack.enter_context(closing(SocketSender(1, "b", {0: self.address}, self.keys, INCARNATION, ENVELOPES)))

    def lets_in(self, stack: ExitStack) -> None:
        """See that another member can still connect."""
        stack.enter_context(closing(SocketSender(2, "c", {0: self.address}, self.keys, INCARNATION, ENVELOPES))).send(
            0, letter(2, 0, ["new"])
        )
        self.arrivals.take(self._sent + 1)
        assert self.arrivals.ordered[2] == [letter(2, 0, ["new"])]

    def works(self, member: SocketSender[Envelope]) -> None:
        """See that what the member sends arrives, all of it, and nothing else."""
        for _ in range(MESSAGES):
            member.send(0, letter(1, self._sent, [self._sent]))
            self._sent += 1
        self.arrivals.take(self._sent)
        assert self.arrivals.raw == [letter(1, sequence, [sequence]) for sequence in range(self._sent)]
        assert self.receiver.receive(0.0) == []
        member.check()
        assert not self.marker.exists()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    seed = random.randrange(2**32)
    print("seed", seed)  # noqa: T201 - pytest shows it on failure
    with ExitStack() as stack:
        yield Site(stack, tmp_path / "unpickled", seed)


@pytest.mark.parametrize("attack", ATTACKS)
def test_strangers_are_not_heard_and_disturb_nobody(site: Site, attack: str) -> None:
    """Nothing of theirs is received or unpickled, and the member's envelopes arrive before, meanwhile and after."""
    with ExitStack() as stack:
        member = site.join(stack)
        site.receiver.meet([1], DEADLINE_S)
        site.works(member)
        with ATTACKS[attack](site.victim):
            site.works(member)
        site.works(member)
        site.lets_in(stack)


def test_strangers_do_not_keep_members_from_meeting(site: Site) -> None:
    """All attacks go on while the members meet."""
    with ExitStack() as stack:
        for attack in ATTACKS.values():
            stack.enter_context(attack(site.victim))
        meeting = Task(lambda: site.receiver.meet([1], DEADLINE_S))
        member = site.join(stack)
        meeting.join()
        site.works(member)


def test_strangers_have_a_worker_hold_little_memory(site: Site) -> None:
    """Thirty callers send commands of 8 GiB, and thirty the largest that is read: these are kept, those are not.

    The callers' own memory counts, too.
    """
    before = process_use().rss
    with ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(ATTACKS["a command of gigabytes"](site.victim))
            stack.enter_context(ATTACKS["a command that never ends"](site.victim))
        assert process_use().rss - before < 100 * LARGEST_FRAME_BYTES


def test_the_forged_pickle_would_do_harm(site: Site) -> None:
    """With the keys it is unpickled, so the tests above would see it if it were let in without."""
    with ExitStack() as stack:
        member = site.join(stack)
        site.receiver.meet([1], DEADLINE_S)
        member._sockets[0].send(site.victim.forged)
        with pytest.raises(ProtocolError, match="it cannot be unpickled"):
            site.receiver.receive(DEADLINE_S)
    assert site.marker.exists()


def test_keys_are_not_shown() -> None:
    """Whatever prints keys, by itself or within something else, shows the public ones only."""

    @dataclass
    class Holder:
        keys: SocketKeys

    keys = SocketKeys.make()
    shown = [repr(keys), str(keys), f"{keys}", repr(Holder(keys)), repr([keys])]
    for text in shown:
        for secret in (keys.listener_secret, keys.caller_secret):
            assert secret.decode() not in text
            assert repr(secret) not in text


def test_each_job_has_keys_of_its_own() -> None:
    """No two jobs share a key, and no secret is a public key."""
    keys = [SocketKeys.make() for _ in range(10)]
    every = {
        key for one in keys for key in (one.listener_public, one.listener_secret, one.caller_public, one.caller_secret)
    }
    assert len(every) == 40


def test_within_a_node_no_port_is_open() -> None:
    """A worker listens to the network only when it is told that it has peers on other nodes."""
    before = listening_ports()
    with closing(SocketReceiver(SocketListener("a"), ENVELOPES)) as receiver:
        assert receiver.listener.address.tcp is None
        assert listening_ports() == before
        receiver.listener.listen_to_other_nodes(HOST, SocketKeys.make())
        assert len(listening_ports() - before) == 1
