"""The receiving end of a link over sockets: ZeroMQ, and datagrams for small items within a node.

Each member listens on one ZeroMQ socket: within a node through its file system, between nodes over TCP with CURVE.
There both ends prove that they have the keys of the job before a byte of what they send is read. Within a node the
address is a file in a directory that only its user can enter. The file is removed as soon as all members are connected,
so that nothing is left behind, however a process ends. Queues have no limit of their own: what is in flight is limited
at the sources.

ZeroMQ hands what it sends to a thread of its own, and what arrives comes from another; where a round is short, waking
them is most of it. So within a node a small item is one datagram, with no thread in between. A datagram arrives when it
is sent, or is refused because the peer has not received the last few. Then the item goes over ZeroMQ, and the numbers
of the items restore their order.

Source: ZeroMQ's guide for PUSH and PULL; RFC 26/CURVEZMQ and RFC 27/ZAP for the keys; unix(7) on ``SOCK_DGRAM``, which
is reliable and keeps order on Linux.
"""

import os
import shutil
import socket
import threading
import time
from collections.abc import Collection
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any, Final

import zmq
from zmq.auth.thread import ThreadAuthenticator

from tidewheel.transport.eager_poll import EagerPoll
from tidewheel.transport.link import Codec, Item, PeerLost, Receiver
from tidewheel.transport.ray_cluster import node_id
from tidewheel.transport.socket_address import SocketAddress, SocketKeys, named, private_directory

GREETING: Final = -1
"""The sequence number of the first item over each connection, which says who is there and nothing else."""

LARGEST_DATAGRAM: Final = 16 * 1024
"""So many bytes at most go as one datagram; copying more costs more than a thread."""

SHORT_S: Final = 200e-6
"""A worker looks for messages for so long before it sleeps, in seconds, while its waits are shorter."""

_MOST_AT_ONCE = 1000
_HEARTBEAT_MS = 5_000
_SILENCE_MS = 30_000
# As plain numbers: members of enumerations cost more than asking the socket does.
_EVENTS = int(zmq.EVENTS)
_POLLIN = int(zmq.POLLIN)


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
        self._poll = EagerPoll(SHORT_S)
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
        keep_alive(self._pull)
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
                    names = ", ".join(map(named, sorted(missing)))
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


class DatagramReceiver:
    """Takes datagrams at a path in the file system.

    Args:
        path: where peers on the same node find it; the directory exists.

    Attributes:
        descriptor: becomes readable when something has come.
    """

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._socket.bind(path)
        self.descriptor: Final = self._socket.fileno()

    def receive(self) -> list[bytes]:
        """Return those that have come; call it once the descriptor is readable."""
        receive = self._socket.recv
        found = [receive(LARGEST_DATAGRAM)]
        try:
            while len(found) < _MOST_AT_ONCE:
                found.append(receive(LARGEST_DATAGRAM))
        except BlockingIOError:
            pass
        return found

    def close(self) -> None:
        """Take nothing more. Idempotent."""
        self._socket.close()


class _Callers:
    """Says who may connect: the holders of one key."""

    def __init__(self, public_key: bytes) -> None:
        self._public_key = public_key

    def callback(self, domain: str, key: bytes) -> bool:
        return key == self._public_key


def keep_alive(connection: Any) -> None:
    """Find out when a peer falls silent, as when its node loses power."""
    connection.set(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
    connection.set(zmq.HEARTBEAT_TIMEOUT, _SILENCE_MS)
