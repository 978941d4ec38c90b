"""Encrypted sockets over TCP, by which members on different nodes reach each other."""

import numpy as np
import pytest

from tests.links.conformance import LinkConformance
from tests.links.link_kind import INCARNATION, Arrivals, Member, Task, letter
from tests.links.peer_conformance import PeerConformance
from tests.links.receiver_conformance import ReceiverConformance
from tests.links.socket_kinds import BETWEEN_NODES, HOST, MIXED, WITHIN_A_NODE, SocketKind
from tidewheel.progress import ProtocolError
from tidewheel.runtime.messages.envelope import ENVELOPES, Envelope
from tidewheel.transport.socket_address import SocketKeys
from tidewheel.transport.socket_link import SocketReceiver, SocketSender
from tidewheel.transport.socket_listener import SocketListener


class TestLink(LinkConformance):
    kind = BETWEEN_NODES


class TestPeers(PeerConformance):
    kind = BETWEEN_NODES


class TestReceiver(ReceiverConformance):
    def make(self) -> SocketReceiver[Envelope]:
        receiver = SocketReceiver(SocketListener("node"), ENVELOPES)
        receiver.listener.listen_to_other_nodes(HOST, SocketKeys.make())
        return receiver


def test_two_on_one_node_and_one_on_another() -> None:
    """Members that reach each other in different ways have one order for each sender."""
    with MIXED.members(3) as members:
        for sequence in range(500):
            for sender, peer in ((0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)):
                members[sender].sender.send(peer, letter(sender, sequence, [peer]))
        for member in members:
            arrivals = Arrivals(member.receiver).take(1000)
            for peer in {0, 1, 2} - {member.number}:
                sent = [letter(peer, sequence, [member.number]) for sequence in range(500)]
                assert [one for one in arrivals.raw if one.sender == peer] == sent


def test_a_member_that_comes_back_is_noticed_by_its_greeting() -> None:
    """A member that has restarted is refused before it has anything to send; who only reconnects is not."""
    keys = SocketKeys.make()
    receiver = SocketReceiver(SocketListener("a"), ENVELOPES)
    address = receiver.listener.listen_to_other_nodes(HOST, keys)
    senders = [SocketSender(1, "b", {0: address}, keys, INCARNATION, ENVELOPES)]
    try:
        receiver.meet([1], 10)
        senders[0].send(0, letter(1, 0, ["first"]))
        arrivals = Arrivals(receiver).take(1)
        senders.append(SocketSender(1, "b", {0: address}, keys, INCARNATION, ENVELOPES))
        senders[0].send(0, letter(1, 1, ["second"]))
        arrivals.take(2)
        senders.append(SocketSender(1, "b", {0: address}, keys, INCARNATION + 1, ENVELOPES))
        with pytest.raises(ProtocolError, match="it has restarted and lost its state"):
            arrivals.take(3)
        assert [one.messages[0].batch for one in arrivals.ordered[1]] == [["first"], ["second"]]
    finally:
        for sender in senders:
            sender.close()
        receiver.close()


@pytest.mark.parametrize("kind", [WITHIN_A_NODE, BETWEEN_NODES], ids=["within", "between"])
def test_arrays_can_be_written_to(kind: SocketKind) -> None:
    """An array that came is the receiver's own, small or large; one that was not writable is not."""
    read_only = np.arange(20_000)
    read_only.setflags(write=False)
    arrays = [np.arange(9), np.arange(20_000), np.arange(1_000_000), read_only]
    with kind.members(2) as members:
        members[0].sender.send(1, letter(0, 0, *arrays))
        arrived = Arrivals(members[1].receiver).take(1).batches
    assert [array.flags.writeable for array in arrived] == [True, True, True, False]
    arrived[1][:] = 7
    assert arrays[1][5] == 5


@pytest.mark.parametrize("kind", [WITHIN_A_NODE, BETWEEN_NODES], ids=["within", "between"])
def test_all_ways_at_once(kind: SocketKind) -> None:
    """Envelopes over sockets, envelopes by calls and wake-ups for nothing, all together: no loss, no stall."""
    count = 3000

    def send(member: Member) -> None:
        for sequence in range(count):
            member.sender.send(0, letter(member.number, sequence, [sequence]))

    def deliver() -> None:
        for sequence in range(count):
            receiver.deliver(letter(8, sequence, [sequence]))

    def wake() -> None:
        for _ in range(count):
            receiver.wake()

    with kind.members(3) as members:
        receiver = members[0].receiver
        tasks = [
            Task(lambda: send(members[1])),
            Task(lambda: send(members[2])),
            Task(deliver),
            Task(wake),
        ]
        arrivals = Arrivals(receiver).take(3 * count)
        for task in tasks:
            task.join()
    for sender in (1, 2, 8):
        assert [one.sequence for one in arrivals.ordered[sender]] == list(range(count))
