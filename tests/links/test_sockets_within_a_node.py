"""Sockets in the file system, by which the members on one node reach each other."""

from tests.links.conformance import LinkConformance
from tests.links.peer_conformance import PeerConformance
from tests.links.receiver_conformance import ReceiverConformance
from tests.links.socket_kinds import WITHIN_A_NODE
from tidewheel.runtime.messages.envelope import ENVELOPES, Envelope
from tidewheel.transport.socket_link import SocketReceiver
from tidewheel.transport.socket_listener import SocketListener


class TestLink(LinkConformance):
    kind = WITHIN_A_NODE


class TestPeers(PeerConformance):
    kind = WITHIN_A_NODE


class TestReceiver(ReceiverConformance):
    def make(self) -> SocketReceiver[Envelope]:
        return SocketReceiver(SocketListener("node"), ENVELOPES)
