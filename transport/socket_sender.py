"""The sending end of a link over sockets: ZeroMQ, and datagrams for small items within a node.

A member has one connection to each of its peers. Small items take the short way within a node, as datagrams, so they
may overtake others; see `socket_receiver`.
"""

import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from tidewheel.transport.link import Codec, Item, PeerLost, Sender
from tidewheel.transport.socket_address import SocketAddress, SocketKeys, named
from tidewheel.transport.socket_receiver import GREETING, LARGEST_DATAGRAM, keep_alive

_LOST_FOR_S = 3.0
_REACHED_WITHIN_S = 60.0
_BROKEN = zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_AUTH


class SocketSender(Sender[Item]):
    """Has a connection to each peer of one member.

    Args:
        member: who this is: a worker's number, or ``DRIVER``.
        node: the node on which it is.
        peers: where they listen.
        keys: the job's, for peers on other nodes.
        incarnation: of this member.
        codec: how items cross the sockets.
        context: whose thread sends; that of the member's receiver, if it has one, is faster than one more.
        copies: whether to copy large buffers, as a user's program may change its arrays after it has sent them.

    Attributes:
        patience_s: for how many seconds a connection may be broken before its peer counts as lost. Whoever watches the
            peer's process knows better why it has gone, and may say so meanwhile.
    """

    def __init__(
        self,
        member: int,
        node: str,
        peers: Mapping[int, SocketAddress],
        keys: SocketKeys,
        incarnation: int,
        codec: Codec[Item],
        context: Any = None,
        *,
        copies: bool = False,
    ) -> None:
        self._codec = codec
        self._copies = copies
        self.patience_s = _LOST_FOR_S
        self._own_context = zmq.Context() if context is None else None
        context = context if context is not None else self._own_context
        self._sockets: dict[int, Any] = {}
        self._monitors: dict[int, Any] = {}
        self._calling: dict[int, float] = {}
        self._lost: dict[int, float] = {}
        self._datagrams: dict[int, DatagramSender] = {}
        for peer, address in peers.items():
            connection = self._sockets[peer] = context.socket(zmq.PUSH)
            connection.set(zmq.SNDHWM, 0)
            connection.set(zmq.SNDTIMEO, 0)
            connection.set(zmq.LINGER, 0)
            self._monitors[peer] = connection.get_monitor_socket(_BROKEN | zmq.EVENT_HANDSHAKE_SUCCEEDED)
            self._calling[peer] = time.monotonic()
            if address.node == node:
                connection.connect(address.ipc)
                self._datagrams[peer] = DatagramSender(address.datagrams)
            else:
                assert address.tcp is not None, "a member with peers on other nodes listens to them"
                connection.set(zmq.CURVE_SERVERKEY, keys.listener_public)
                connection.set(zmq.CURVE_PUBLICKEY, keys.caller_public)
                connection.set(zmq.CURVE_SECRETKEY, keys.caller_secret)
                keep_alive(connection)
                connection.connect(address.tcp)
            connection.send(codec.encode(codec.empty(member, incarnation, GREETING))[0])

    def send(self, peer: int, item: Item) -> int:
        """Send a small item to a peer on this node; queue others, and a thread of ZeroMQ sends them."""
        frames = self._codec.encode(item)
        datagrams = self._datagrams.get(peer)
        if datagrams is not None and len(frames) == 1 and datagrams.send(frames[0]):
            return len(frames[0])
        connection = self._sockets[peer]
        try:
            if len(frames) == 1:
                connection.send(frames[0])
            else:
                # What an operator has sent is the runtime's; the driver's program may still change its arrays.
                connection.send_multipart(frames, copy=self._copies)
        except zmq.Again:
            # A peer that refuses the handshake leaves the socket without a connection to queue for.
            raise _lost(peer, f"{named(peer)} has refused the connection: it is none of this job") from None
        return sum(map(len, frames))

    def check(self) -> None:
        """Look for connections that broke: the peer's process has ended, or its node cannot be reached."""
        now = time.monotonic()
        for peer, monitor in self._monitors.items():
            while monitor.get(zmq.EVENTS) & zmq.POLLIN:
                if recv_monitor_message(monitor)["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                    self._calling.pop(peer, None)
                else:
                    self._lost.setdefault(peer, now)
        for peer, since in self._lost.items():
            if now - since >= self.patience_s:
                raise _lost(peer, f"the connection to {named(peer)} has broken: its process or its node is gone")
        for peer, since in self._calling.items():
            if now - since > _REACHED_WITHIN_S:
                reason = f"was not reached within {_REACHED_WITHIN_S:g} s: can the nodes reach each other on any port?"
                raise _lost(peer, f"{named(peer)} {reason} link='ray' uses Ray's own connections")

    def close(self, linger_s: float = 0.0) -> None:
        """Disconnect from every peer."""
        for peer, connection in self._sockets.items():
            if not connection.closed:
                connection.disable_monitor()
                self._monitors[peer].close(linger=0)
                connection.close(linger=int(linger_s * 1000))
        for datagrams in self._datagrams.values():
            datagrams.close()
        if self._own_context is not None:
            self._own_context.destroy(linger=0)


class DatagramSender:
    """Sends datagrams to one peer on the same node, from any thread.

    Args:
        path: where the peer takes them.
    """

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        with suppress(OSError):  # then nothing is taken here, and how the peer fares shows in the other connection
            self._socket.connect(path)

    def send(self, frame: bytes) -> bool:
        """Send it, and return True; return False if it has to go another way: it is too large, or not taken now."""
        if len(frame) > LARGEST_DATAGRAM:
            return False
        try:
            self._socket.send(frame)
        except OSError:  # it is full, or the peer is gone, which shows in the connection over ZeroMQ
            return False
        return True

    def close(self) -> None:
        """Let go of the peer. Idempotent."""
        self._socket.close()


def _lost(peer: int, reason: str) -> PeerLost:
    return PeerLost(reason, worker=peer if peer >= 0 else None)
