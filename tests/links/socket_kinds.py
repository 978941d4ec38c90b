"""Socket links for the conformance suite: within a node, between nodes, and with a member in another process."""

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from multiprocessing.connection import Connection

from tests.links.link_kind import DEADLINE_S, INCARNATION, LinkKind, Member, Reflection
from tidewheel.runtime.messages.envelope import ENVELOPES, Envelope
from tidewheel.transport.socket_address import DRIVER, SocketAddress, SocketKeys
from tidewheel.transport.socket_link import SocketReceiver, SocketSender
from tidewheel.transport.socket_listener import SocketListener

HOST = "127.0.0.1"


def reflect(node: str, keys: SocketKeys | None, connection: Connection) -> None:
    """Be worker 1, in a process of its own: send everything that comes back to worker 0."""
    receiver = SocketReceiver(SocketListener(node), ENVELOPES)
    if keys is not None:
        receiver.listener.listen_to_other_nodes(HOST, keys)
    connection.send(receiver.listener.address)
    home: SocketAddress = connection.recv()
    sender = SocketSender(
        1, node, {0: home}, keys or SocketKeys.make(), INCARNATION, ENVELOPES, receiver.listener.context
    )
    receiver.meet([DRIVER, 0], DEADLINE_S)
    connection.send(None)
    sequence = 0
    while True:
        for envelope in receiver.receive(1.0):
            sender.send(0, Envelope(1, INCARNATION, sequence, envelope.messages, envelope.progress))
            sequence += 1


class SocketKind(LinkKind):
    """Sockets; ``nodes`` says on which node each member is."""

    def __init__(self, nodes: Mapping[int, str]) -> None:
        self._nodes = nodes
        self._keys = SocketKeys.make() if len(set(nodes.values())) > 1 else None
        self.keeps_order = self._keys is not None

    def _receiver(self, number: int) -> SocketReceiver[Envelope]:
        receiver = SocketReceiver(SocketListener(self._nodes[number]), ENVELOPES)
        if self._keys is not None:
            receiver.listener.listen_to_other_nodes(HOST, self._keys)
        return receiver

    def _sender(
        self, number: int, peers: Mapping[int, SocketAddress], receiver: SocketReceiver[Envelope] | None = None
    ) -> SocketSender[Envelope]:
        keys = self._keys or SocketKeys.make()
        context = receiver.listener.context if receiver is not None else None
        return SocketSender(
            number, self._nodes[number], peers, keys, INCARNATION, ENVELOPES, context, copies=number == DRIVER
        )

    @contextmanager
    def members(self, count: int) -> Iterator[Sequence[Member]]:
        with ExitStack() as stack:
            receivers = [stack.enter_context(closing(self._receiver(number))) for number in range(count)]
            addresses = {number: receiver.listener.address for number, receiver in enumerate(receivers)}
            members = []
            for number, receiver in enumerate(receivers):
                peers = {peer: address for peer, address in addresses.items() if peer != number}
                sender = stack.enter_context(closing(self._sender(number, peers, receiver)))
                members.append(Member(number, sender, receiver))
            for member in members:
                assert isinstance(member.receiver, SocketReceiver)
                member.receiver.meet(set(addresses) - {member.number}, DEADLINE_S)
            yield members

    @contextmanager
    def reflection(self) -> Iterator[Reflection]:
        spawning = multiprocessing.get_context("spawn")
        ours, theirs = spawning.Pipe()
        process = spawning.Process(target=reflect, args=(self._nodes[1], self._keys, theirs), daemon=True)
        process.start()
        theirs.close()
        with ExitStack() as stack:
            stack.callback(ours.close)
            stack.callback(process.join, DEADLINE_S)
            stack.callback(process.kill)
            assert ours.poll(DEADLINE_S), "the process did not come up"
            peers = {1: ours.recv()}
            receiver = stack.enter_context(closing(self._receiver(0)))
            ours.send(receiver.listener.address)
            home = Member(0, stack.enter_context(closing(self._sender(0, peers, receiver))), receiver)
            driver = stack.enter_context(closing(self._sender(DRIVER, peers)))
            receiver.meet([1], DEADLINE_S)
            assert ours.poll(DEADLINE_S)
            ours.recv()
            assert process.pid is not None
            yield Reflection(driver, home, process.pid)


WITHIN_A_NODE = SocketKind({DRIVER: "node", 0: "node", 1: "node", 2: "node"})
BETWEEN_NODES = SocketKind({DRIVER: "d", 0: "a", 1: "b", 2: "c"})
MIXED = SocketKind({DRIVER: "a", 0: "a", 1: "b", 2: "a"})
