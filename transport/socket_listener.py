"""The sockets on which a member listens: a ZeroMQ socket, and a socket for datagrams within a node.

Within a node the addresses are files in a private directory. The files are removed once all members have connected, so
that none is left, however a process ends. Between nodes the ZeroMQ socket listens over TCP with CURVE: both ends prove
that they have the job's keys before a message is received. ZeroMQ keeps one frame of a caller in memory even before
that proof. So frames over TCP have a small limit; see `pieces`.

Source: RFC 26/CURVEZMQ and RFC 27/ZAP for the keys.
"""

import os
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import zmq

from tidewheel.host.ray_cluster import node_id
from tidewheel.transport.link import PeerLost
from tidewheel.transport.pieces import LARGEST_FRAME_BYTES
from tidewheel.transport.socket_address import SocketAddress, SocketKeys, private_directory

_HEARTBEAT_MS = 5_000
_SILENCE_MS = 30_000


class SocketListener:
    def __init__(self, node: str) -> None:
        self.context = zmq.Context()
        self._authenticator: Any = None
        self._directory = private_directory()
        self._descriptors: list[int] = []
        self.pull = self.context.socket(zmq.PULL)
        self.pull.set(zmq.RCVHWM, 0)
        self.pull.set(zmq.LINGER, 0)
        self.pull.set(zmq.RCVTIMEO, 0)
        ipc = f"ipc://{self._directory}/s"
        self.pull.bind(ipc)
        self.address = SocketAddress(node, ipc, f"{self._directory}/d")
        self.datagrams = datagram_socket()
        self.datagrams.bind(self.address.datagrams)

    def withdraw_files(self) -> None:
        """Remove the sockets' files; processes of this user on the node can still reach the sockets by ``/proc``.

        So no file is left if all members are killed before they have connected. Other users cannot connect through an
        open descriptor. Without ``/proc``, the files stay until all members have connected.

        Source: proc(5) on ``/proc/pid/fd``, open(2) on ``O_PATH``.
        """
        if hasattr(os, "O_PATH") and Path("/proc/self/fd").exists():
            self._descriptors = [os.open(f"{self._directory}/{name}", os.O_PATH) for name in ("s", "d")]
            shutil.rmtree(self._directory)
            ipc, datagrams = (f"/proc/{os.getpid()}/fd/{descriptor}" for descriptor in self._descriptors)
            self.address = replace(self.address, ipc=f"ipc://{ipc}", datagrams=datagrams)

    def listen_to_other_nodes(self, host: str, keys: SocketKeys) -> SocketAddress:
        """Listen also on a TCP port of ``host``, for callers that have the keys; return the new address.

        Raises:
            PeerLost: no port can be opened on ``host``.
        """
        from zmq.auth.thread import ThreadAuthenticator  # this imports all of asyncio for ZeroMQ

        self._authenticator = ThreadAuthenticator(self.context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(credentials_provider=_Callers(keys.caller_public))
        self.pull.set(zmq.CURVE_SERVER, 1)
        self.pull.set(zmq.CURVE_SECRETKEY, keys.listener_secret)
        self.pull.set(zmq.MAXMSGSIZE, LARGEST_FRAME_BYTES)  # for TCP: the node's own socket is bound already
        keep_alive(self.pull)
        try:
            port = self.pull.bind_to_random_port(f"tcp://{host}")
        except zmq.ZMQError as error:
            raise PeerLost(f"no port on {host} is free for workers on other nodes to connect to: {error}") from error
        self.address = replace(self.address, tcp=f"tcp://{host}:{port}")
        return self.address

    def remove_files(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    def close(self) -> None:
        """Stop listening. Call this only once."""
        if self._authenticator is not None:
            self._authenticator.stop()
        self.context.destroy(linger=0)
        self.remove_files()
        self.datagrams.close()
        while self._descriptors:
            os.close(self._descriptors.pop())


def datagram_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)


class _Callers:
    """Admits callers that have the given key."""

    def __init__(self, public_key: bytes) -> None:
        self._public_key = public_key

    def callback(self, domain: str, key: bytes) -> bool:
        return key == self._public_key


def keep_alive(connection: Any) -> None:
    """Let a connection notice a silent peer, such as one whose node has lost power."""
    connection.set(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
    connection.set(zmq.HEARTBEAT_TIMEOUT, _SILENCE_MS)


def listen_here(keys: SocketKeys | None) -> SocketListener:
    """Listen for members on this Ray node and, with ``keys``, for callers on other nodes that have the keys.

    Raises:
        PeerLost: no port for other nodes can be opened.
    """
    import ray

    listener = SocketListener(node_id())
    listener.withdraw_files()
    if keys is not None:
        listener.listen_to_other_nodes(ray.util.get_node_ip_address(), keys)
    return listener
