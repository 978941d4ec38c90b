"""A link over ZeroMQ sockets: within a node through its file system, between nodes over TCP with CURVE.

Each member listens on one socket, and has one to each peer. Within a node the address is a file in a directory that
only its user can enter; it is removed as soon as all members are connected, so that nothing is left behind, however a
process ends. Small envelopes take the short way there, as datagrams, so they may overtake others. Between nodes both
ends prove that they have the keys of the job before a byte of what they send is read.
Queues have no limit of their own: what is in flight is limited at the sources.

Source: ZeroMQ's guide for PUSH and PULL; RFC 26/CURVEZMQ and RFC 27/ZAP for the keys.
"""

import os
import shutil
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any, Final

import zmq
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils.monitor import recv_monitor_message

from tidewheel.transport.datagrams import DatagramReceiver, DatagramSender
from tidewheel.transport.eager_poll import EagerPoll
from tidewheel.transport.errors import PeerLost
from tidewheel.transport.link import Codec, Item, Receiver, Sender
from tidewheel.transport.ray_cluster import node_id
from tidewheel.transport.socket_address import DRIVER, SocketAddress, private_directory
from tidewheel.transport.socket_keys import SocketKeys

GREETING: Final = -1
"""The sequence number of the first item over each connection, which says who is there and nothing else."""


_MOST_AT_ONCE = 1000
_LOST_FOR_S = 3.0
_REACHED_WITHIN_S = 60.0
_HEARTBEAT_MS = 5_000
_SILENCE_MS = 30_000
# As plain numbers: members of enumerations cost more than asking the socket does.
_EVENTS = int(zmq.EVENTS)
_POLLIN = int(zmq.POLLIN)
_BROKEN = zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_AUTH


class SocketReceiver(Receiver[Item]):
    """Listens for the peers of one member.

    Args:
        node: the node on which it is, as its peers name it.
        codec: how items cross the sockets.
    """

    def __init__(self, node: str, codec: Codec[Item]) -> None:
        super().__init__()
        self._codec = codec
        self.context = zmq.Context()
        self._authenticator: ThreadAuthenticator | None = None
        self._directory = private_directory()
        self._descriptors: list[int] = []
        self._pull = self.context.socket(zmq.PULL)
        self._pull.set(zmq.RCVHWM, 0)
        self._pull.set(zmq.LINGER, 0)
        self._pull.set(zmq.RCVTIMEO, 0)
        ipc = f"ipc://{self._directory}/s"
        self._pull.bind(ipc)
        self._pull.bind("inproc://wake")
        self._waker = self.context.socket(zmq.PUSH)
        self._waker.set(zmq.LINGER, 0)
        self._waker.connect("inproc://wake")
        self._wake_lock = threading.Lock()
        self._woken = False
        self._early: list[Item] = []
        self._given_up = False
        self.address = SocketAddress(node, ipc, f"{self._directory}/d")
        self._datagrams = DatagramReceiver(self.address.datagrams)
        self._poll = EagerPoll()
        self._poll.register(self._datagrams.descriptor)
        self._poll.register(int(self._pull.get(zmq.FD)))
        self._may_have_more = True

    def withdraw_file(self) -> SocketAddress:
        """Remove the sockets' files; return where else this user's processes on the node reach them.

        So nothing stays behind when all members are killed before they are connected. A descriptor of a file, which
        stays open, is as good as the file, and nobody else may use it. Where there is no ``/proc``, the files
        stay until all are connected.

        Source: proc(5) on ``/proc/pid/fd``, open(2) on ``O_PATH``.
        """
        if hasattr(os, "O_PATH") and Path("/proc/self/fd").exists():
            self._descriptors = [os.open(f"{self._directory}/{name}", os.O_PATH) for name in ("s", "d")]
            shutil.rmtree(self._directory)
            ipc, datagrams = (f"/proc/{os.getpid()}/fd/{descriptor}" for descriptor in self._descriptors)
            self.address = replace(self.address, ipc=f"ipc://{ipc}", datagrams=datagrams)
        return self.address

    def listen_to_other_nodes(self, host: str, keys: SocketKeys) -> SocketAddress:
        """Listen on a port of ``host`` too, for callers that have the keys; return the address that says so.

        Raises:
            PeerLost: it is not possible to listen there.
        """
        self._authenticator = ThreadAuthenticator(self.context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(credentials_provider=_Callers(keys.caller_public))
        self._pull.set(zmq.CURVE_SERVER, 1)
        self._pull.set(zmq.CURVE_SECRETKEY, keys.listener_secret)
        _keep_alive(self._pull)
        try:
            port = self._pull.bind_to_random_port(f"tcp://{host}")
        except zmq.ZMQError as error:
            raise PeerLost(f"no port on {host} is free for workers on other nodes to connect to: {error}") from error
        self.address = replace(self.address, tcp=f"tcp://{host}:{port}")
        return self.address

    def meet(self, members: Collection[int], timeout_s: float) -> None:
        """Wait until each of ``members`` has called; then remove the socket's file.

        Raises:
            PeerLost: some have not called in time, or `give_up` was called.
        """
        missing = set(members)
        deadline = time.monotonic() + timeout_s
        try:
            while missing:
                if self._given_up:
                    raise PeerLost("it was dropped before all members were connected")
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    names = ", ".join(map(_named, sorted(missing)))
                    where = self.address.tcp or self.address.ipc
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
            shutil.rmtree(self._directory, ignore_errors=True)

    def give_up(self) -> None:
        """Have `meet` raise PeerLost; from any thread."""
        self._given_up = True
        self.wake()

    def receive(self, timeout_s: float) -> list[Item]:
        """Return what came over any connection, or was delivered."""
        if self._early:
            early, self._early = self._early, []
            return early
        return self._receive(timeout_s)

    def _receive(self, timeout_s: float) -> list[Item]:
        """Take what has come both ways; wait for something if there is nothing.

        The descriptor of a ZeroMQ socket only says when its state may have changed. So the socket is asked after that,
        until it has no more.
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
        """Have `receive` return."""
        with self._wake_lock:
            if not self._woken and not self._waker.closed:
                self._woken = True
                self._waker.send(b"")

    def close(self) -> None:
        """Stop listening."""
        with self._wake_lock:
            if self._waker.closed:
                return
            self._waker.close(linger=0)
        if self._authenticator is not None:
            self._authenticator.stop()
        self.context.destroy(linger=0)
        shutil.rmtree(self._directory, ignore_errors=True)
        self._datagrams.close()
        while self._descriptors:
            os.close(self._descriptors.pop())


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
            socket = self._sockets[peer] = context.socket(zmq.PUSH)
            socket.set(zmq.SNDHWM, 0)
            socket.set(zmq.SNDTIMEO, 0)
            socket.set(zmq.LINGER, 0)
            self._monitors[peer] = socket.get_monitor_socket(_BROKEN | zmq.EVENT_HANDSHAKE_SUCCEEDED)
            self._calling[peer] = time.monotonic()
            if address.node == node:
                socket.connect(address.ipc)
                self._datagrams[peer] = DatagramSender(address.datagrams)
            else:
                assert address.tcp is not None, "a member with peers on other nodes listens to them"
                socket.set(zmq.CURVE_SERVERKEY, keys.listener_public)
                socket.set(zmq.CURVE_PUBLICKEY, keys.caller_public)
                socket.set(zmq.CURVE_SECRETKEY, keys.caller_secret)
                _keep_alive(socket)
                socket.connect(address.tcp)
            socket.send(codec.encode(codec.empty(member, incarnation, GREETING))[0])

    def send(self, peer: int, item: Item) -> None:
        """Send a small item to a peer on this node; queue others, and a thread of ZeroMQ sends them."""
        frames = self._codec.encode(item)
        datagrams = self._datagrams.get(peer)
        if datagrams is not None and len(frames) == 1 and datagrams.send(frames[0]):
            return
        socket = self._sockets[peer]
        try:
            if len(frames) == 1:
                socket.send(frames[0])
            else:
                # What an operator has sent is the runtime's; the driver's program may still change its arrays.
                socket.send_multipart(frames, copy=self._copies)
        except zmq.Again:
            # A peer that refuses the handshake leaves the socket without a connection to queue for.
            raise _lost(peer, f"{_named(peer)} has refused the connection: it is none of this job") from None

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
                raise _lost(peer, f"the connection to {_named(peer)} has broken: its process or its node is gone")
        for peer, since in self._calling.items():
            if now - since > _REACHED_WITHIN_S:
                reason = f"was not reached within {_REACHED_WITHIN_S:g} s: can the nodes reach each other on any port?"
                raise _lost(peer, f"{_named(peer)} {reason} link='ray' uses Ray's own connections")

    def close(self, linger_s: float = 0.0) -> None:
        """Disconnect from every peer."""
        for peer, socket in self._sockets.items():
            if not socket.closed:
                socket.disable_monitor()
                self._monitors[peer].close(linger=0)
                socket.close(linger=int(linger_s * 1000))
        for datagrams in self._datagrams.values():
            datagrams.close()
        if self._own_context is not None:
            self._own_context.destroy(linger=0)


def listen_here(codec: Codec[Item], keys: SocketKeys | None) -> SocketReceiver[Item]:
    """Listen for members on this node of the Ray cluster and, for callers that have ``keys``, on other nodes.

    Raises:
        PeerLost: it is not possible to listen to other nodes.
    """
    import ray

    receiver = SocketReceiver(node_id(), codec)
    receiver.withdraw_file()
    if keys is not None:
        receiver.listen_to_other_nodes(ray.util.get_node_ip_address(), keys)
    return receiver


def _named(member: int) -> str:
    return "the driver" if member == DRIVER else f"worker {member}" if member >= 0 else "a feeder"


def _lost(peer: int, reason: str) -> PeerLost:
    return PeerLost(reason, worker=peer if peer >= 0 else None)


class _Callers:
    """Says who may connect: the holders of one key."""

    def __init__(self, public_key: bytes) -> None:
        self._public_key = public_key

    def callback(self, domain: str, key: bytes) -> bool:
        return key == self._public_key


def _keep_alive(socket: Any) -> None:
    """Find out when a peer falls silent, as when its node loses power."""
    socket.set(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
    socket.set(zmq.HEARTBEAT_TIMEOUT, _SILENCE_MS)
