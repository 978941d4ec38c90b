"""The two ends of a link over sockets: ZeroMQ, and datagrams for small items within a node.

Each member listens on one ZeroMQ socket, and has one connection to each peer. The queues have no limit: sources limit
the bytes in flight.

ZeroMQ sends and receives on its own threads. When steps are short, most of the time is spent waking these threads. So
within a node a small item is sent as one datagram, without those threads. The datagram arrives at once, or the system
refuses it because the peer has not read the last few. A refused item goes over ZeroMQ, and the receiver restores the
order by the items' numbers.

Source: ZeroMQ's guide for PUSH and PULL; unix(7) on ``SOCK_DGRAM``, which is reliable and keeps order on Linux.
"""

import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from math import ceil
from socket import socket
from typing import Any, Final

import zmq

from tidewheel.transport.eager_poll import EagerPoll
from tidewheel.transport.link import Codec, Item, PeerLost, Receiver, Sender
from tidewheel.transport.pieces import PIECE_BYTES, in_pieces, put_together
from tidewheel.transport.received_memory import ReceivedMemory
from tidewheel.transport.socket_address import SocketAddress, SocketKeys, named
from tidewheel.transport.socket_listener import SocketListener, datagram_socket, keep_alive

GREETING: Final = -1
"""The sequence number of the first item over each connection, which only identifies the sender."""

LARGEST_DATAGRAM: Final = 16 * 1024
"""The largest frame that is sent as a datagram, in bytes: copying a larger one costs more than ZeroMQ's thread."""

_WORKER_SHORT_S: Final = 200e-6
"""How long a worker polls before it sleeps, in seconds."""

_MOST_AT_ONCE = 1000
_LOST_FOR_S = 3.0
_REACHED_WITHIN_S = 60.0
_BROKEN = zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
# Plain numbers: looking up enumeration members would cost more than asking the socket.
_EVENTS = int(zmq.EVENTS)
_POLLIN = int(zmq.POLLIN)


class SocketSender(Sender[Item]):
    """Sends the items of one member, over a connection to each peer.

    Args:
        context: the ZeroMQ context to send with. Sharing the receiver's context is faster.
        copies: whether to copy large buffers, as is needed if a user's program may change its arrays after sending
            them.

    Attributes:
        patience_s: how many seconds a connection may be broken before its peer counts as lost. Meanwhile the job may
            find out the real reason, such as a dead process.
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
        """Send an item to a peer: a small one on this node at once, others on ZeroMQ's thread."""
        frames = self._codec.encode(item)
        datagrams = self._datagrams.get(peer)
        if datagrams is not None and len(frames) == 1 and datagrams.send(frames[0]):
            return len(frames[0])
        connection = self._sockets[peer]
        size = sum(map(len, frames))
        try:
            if len(frames) == 1 and size <= PIECE_BYTES:
                connection.send(frames[0])
            else:
                parts = frames if datagrams is not None or size <= PIECE_BYTES else in_pieces(frames)
                # Batches of operators belong to the runtime; the driver's program may still change its arrays.
                connection.send_multipart(parts, copy=self._copies)
        except zmq.Again:
            # If a peer refuses the handshake, the socket has no connection whose queue takes messages.
            raise _lost(peer, f"{named(peer)} has refused the connection: it is none of this job") from None
        return size

    def check(self) -> None:
        """Raise PeerLost if a connection has been broken for too long: the peer or its node is gone."""
        from zmq.utils.monitor import recv_monitor_message  # this imports all of asyncio for ZeroMQ

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
    """Sends datagrams to one peer on the same node, from any thread."""

    def __init__(self, path: str) -> None:
        self._socket = datagram_socket()
        with suppress(OSError):  # the peer reads no datagrams now; the ZeroMQ connection shows whether it lives
            self._socket.connect(path)

    def send(self, frame: bytes) -> bool:
        """Send a frame; return False if the peer has no room, so that the caller must send it over ZeroMQ."""
        if len(frame) > LARGEST_DATAGRAM:
            return False
        try:
            self._socket.send(frame)
        except OSError:  # the buffer is full, or the peer is gone: the ZeroMQ connection shows which
            return False
        return True

    def close(self) -> None:
        self._socket.close()


def _lost(peer: int, reason: str) -> PeerLost:
    return PeerLost(reason, worker=peer if peer >= 0 else None)


class SocketReceiver(Receiver[Item]):
    """Receives the items for one member.

    Args:
        listener: the sockets; `close` closes them.
    """

    def __init__(self, listener: SocketListener, codec: Codec[Item]) -> None:
        super().__init__()
        self.listener = listener
        self._codec = codec
        self._pull = listener.pull
        self._pull.bind("inproc://wake")
        self._waker = listener.context.socket(zmq.PUSH)
        self._waker.set(zmq.LINGER, 0)
        self._waker.connect("inproc://wake")
        self._wake_lock = threading.Lock()
        self._woken = False
        self._memory = ReceivedMemory()
        self._early: list[Item] = []
        self._given_up = False
        self._datagrams = DatagramReceiver(listener.datagrams)
        self._poll = EagerPoll(_WORKER_SHORT_S)
        self._poll.register(self._datagrams.descriptor)
        self._poll.register(int(self._pull.get(zmq.FD)))
        self._may_have_more = True

    def meet(self, members: Collection[int], timeout_s: float) -> None:
        """Wait until all ``members`` have connected, then remove the sockets' files.

        Raises:
            PeerLost: a member has not connected in time, or `give_up` was called.
        """
        missing = set(members)
        deadline = time.monotonic() + timeout_s
        try:
            while missing:
                if self._given_up:
                    raise PeerLost("it was dropped before all members were connected")
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    names = ", ".join(map(named, sorted(missing)))
                    where = self.listener.address.tcp or self.listener.address.ipc
                    raise PeerLost(
                        f"{names} did not connect to {where} within {timeout_s:g} s: can the nodes reach each other on "
                        "any port? link='ray' uses Ray's own connections"
                    )
                for item in self._receive(left_s):
                    if item.sequence == GREETING:
                        missing.discard(item.sender)
                    else:
                        self._early.append(item)
        finally:
            self.listener.remove_files()

    def give_up(self) -> None:
        """Let `meet` raise PeerLost at once; thread-safe."""
        self._given_up = True
        self.wake()

    def receive(self, timeout_s: float) -> list[Item]:
        if self._early:
            early, self._early = self._early, []
            return early
        return self._receive(timeout_s)

    def _receive(self, timeout_s: float) -> list[Item]:
        """Receive the items of ZeroMQ and of datagrams, or wait for one.

        A ZeroMQ descriptor only tells that the socket's state may have changed, so `_receive` reads until the socket is
        empty.
        """
        found: list[Item] = []
        if self._delivered or (self._may_have_more and self._has_more()):
            timeout_s = 0.0
        for descriptor, _ in self._poll.poll(ceil(timeout_s * 1000)):
            if descriptor == self._datagrams.descriptor:
                found += [self._codec.decode(head, ()) for head in self._datagrams.receive()]
            else:
                self._may_have_more = True
        for _ in range(_MOST_AT_ONCE if self._may_have_more else 0):
            if not self._has_more():
                break
            head = self._pull.recv()
            if head:
                found.append(self._decoded(head))
            elif self._pull.get(zmq.RCVMORE):
                head, *buffers = put_together(self._pull, self._memory)
                found.append(self._codec.decode(head, buffers))
            else:
                self._woken = False
        return found + self._take_delivered() if self._delivered else found

    def _has_more(self) -> bool:
        self._may_have_more = bool(int(self._pull.get(_EVENTS)) & _POLLIN)
        return self._may_have_more

    def _decoded(self, head: bytes) -> Item:
        frames = self._pull.recv_multipart(copy=False) if self._pull.get(zmq.RCVMORE) else []
        return self._codec.decode(head, [frame.buffer for frame in frames])

    def wake(self) -> None:
        with self._wake_lock:
            if not self._woken and not self._waker.closed:
                self._woken = True
                self._waker.send(b"")

    def close(self) -> None:
        with self._wake_lock:
            if self._waker.closed:
                return
            self._waker.close(linger=0)
        self.listener.close()


class DatagramReceiver:
    def __init__(self, source: socket) -> None:
        self._socket = source
        self.descriptor: Final = self._socket.fileno()

    def receive(self) -> list[bytes]:
        receive = self._socket.recv
        found = [receive(LARGEST_DATAGRAM)]
        try:
            while len(found) < _MOST_AT_ONCE:
                found.append(receive(LARGEST_DATAGRAM))
        except BlockingIOError:
            pass
        return found
