"""Attacks by strangers on a port on which a worker of a job listens.

Each attack is a context manager: inside its block the attacker is still connected, if the listener lets it be.
"""

import random
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import zmq
from zmq.utils.monitor import recv_monitor_message

from tidewheel.transport.pieces import LARGEST_FRAME_BYTES

CLOSED_WITHIN_S = 10.0
_REFUSED = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_DISCONNECTED
)


@dataclass(frozen=True, slots=True)
class Victim:
    """A listening port, the public key that anybody may know, and an envelope that does harm when it is unpickled."""

    host: str
    port: int
    listener_public: bytes
    forged: bytes
    random: random.Random

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), CLOSED_WITHIN_S)


Attack: TypeAlias = Callable[[Victim], AbstractContextManager[None]]


def greeting(mechanism: bytes, version: int = 3) -> bytes:
    """The first 64 bytes of ZMTP 3."""
    return b"\xff" + bytes(8) + b"\x7f" + bytes([version, 0]) + mechanism.ljust(20, b"\0") + bytes(32)


def frame(flags: int, body: bytes) -> bytes:
    return bytes([flags | 2]) + struct.pack(">Q", len(body)) + body


def _wait_for_end(connection: socket.socket) -> None:
    """Read until the listener hangs up, which it has to do; raises TimeoutError if it does not."""
    try:
        while connection.recv(1 << 16):
            pass
    except (ConnectionResetError, BrokenPipeError):
        pass


def _says(make: Callable[[Victim], bytes]) -> Attack:
    """Send some bytes, and see the listener hang up."""

    @contextmanager
    def attack(victim: Victim) -> Iterator[None]:
        with victim.connect() as connection:
            try:
                connection.sendall(make(victim))
            except (ConnectionResetError, BrokenPipeError):
                pass  # it has hung up before the end
            else:
                _wait_for_end(connection)
            yield

    return attack


def _lingers(make: Callable[[Victim], bytes]) -> Attack:
    """Send some bytes byte by byte, and stay."""

    @contextmanager
    def attack(victim: Victim) -> Iterator[None]:
        with victim.connect() as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in make(victim):
                connection.send(bytes([byte]))
            yield

    return attack


@contextmanager
def _many_random_connections(victim: Victim) -> Iterator[None]:
    """Connect a hundred times, send some random bytes each time, and leave at once or hard."""
    for _ in range(100):
        with victim.connect() as connection:
            start = victim.random.choice([b"", b"\xff", b"\xff" + bytes(8) + b"\x7f\x03", greeting(b"CURVE")])
            connection.sendall(start + victim.random.randbytes(victim.random.randrange(300)))
            if victim.random.random() < 0.5:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    yield


@contextmanager
def _many_at_once(victim: Victim) -> Iterator[None]:
    """Hold two hundred connections that say nothing."""
    connections = [victim.connect() for _ in range(200)]
    yield
    for connection in connections:
        connection.close()


@contextmanager
def _lingering_command(victim: Victim) -> Iterator[None]:
    """Send all but the end of as large a command as the listener reads."""
    with victim.connect() as connection:
        connection.sendall(greeting(b"CURVE") + b"\x06" + struct.pack(">Q", LARGEST_FRAME_BYTES))
        connection.sendall(bytes(LARGEST_FRAME_BYTES - 1))
        yield


def _peer(mechanism: str, refused: int = _REFUSED) -> Attack:
    """A ZeroMQ peer that sends the forged envelope, alone and as a buffer, and hears that it is refused."""

    @contextmanager
    def attack(victim: Victim) -> Iterator[None]:
        with zmq.Context() as context, context.socket(zmq.PUSH) as peer:
            peer.set(zmq.LINGER, 0)
            peer.set(zmq.SNDTIMEO, 0)
            _configure(peer, mechanism, victim)
            with peer.get_monitor_socket(refused) as monitor:
                peer.connect(f"tcp://{victim.host}:{victim.port}")
                peer.send(victim.forged)
                peer.send_multipart([victim.forged, victim.forged])
                monitor.set(zmq.RCVTIMEO, int(CLOSED_WITHIN_S * 1000))
                assert recv_monitor_message(monitor)["event"] & refused
                yield
                peer.disable_monitor()

    return attack


def _configure(peer: Any, mechanism: str, victim: Victim) -> None:
    if mechanism == "plain":
        peer.set(zmq.PLAIN_USERNAME, b"tidewheel")
        peer.set(zmq.PLAIN_PASSWORD, b"tidewheel")
    elif mechanism != "none":
        public, secret = zmq.curve_keypair()
        peer.set(zmq.CURVE_PUBLICKEY, public)
        peer.set(zmq.CURVE_SECRETKEY, secret)
        peer.set(zmq.CURVE_SERVERKEY, victim.listener_public if mechanism == "own key" else zmq.curve_keypair()[0])


def _ready(victim: Victim) -> bytes:
    return frame(4, b"\x05READY\x0bSocket-Type\0\0\0\x04PUSH") + frame(0, victim.forged)


ATTACKS: dict[str, Attack] = {
    "random bytes": _many_random_connections,
    "a lot of bytes": _says(lambda victim: victim.random.randbytes(1 << 20) * 64),
    "a lot of bytes after the greeting": _says(lambda victim: greeting(b"CURVE") + victim.random.randbytes(1 << 24)),
    "a frame of all memory": _says(
        lambda victim: greeting(b"CURVE") + b"\x06" + struct.pack(">Q", 1 << 62) + bytes(99)
    ),
    "a command of gigabytes": _says(
        lambda victim: greeting(b"CURVE") + b"\x06" + struct.pack(">Q", 8 << 30) + bytes(1 << 24)
    ),
    "a command just too large": _says(
        lambda victim: greeting(b"CURVE") + b"\x06" + struct.pack(">Q", LARGEST_FRAME_BYTES + 1)
    ),
    "a command that never ends": _lingering_command,
    "ZMTP 1": _says(lambda victim: b"\x01\0" + bytes([len(victim.forged) + 1, 0]) + victim.forged + bytes(64)),
    "ZMTP 2": _says(
        lambda victim: b"\xff" + bytes(8) + b"\x7f\x01\x08\0\0" + bytes([0, len(victim.forged)]) + victim.forged
    ),
    "no mechanism": _says(lambda victim: greeting(b"NULL") + _ready(victim)),
    "no handshake": _says(lambda victim: greeting(b"CURVE") + _ready(victim)),
    "a message instead": _says(lambda victim: greeting(b"CURVE") + frame(0, victim.forged) * 20),
    "an initiate before a hello": _says(lambda victim: greeting(b"CURVE") + frame(4, b"\x08INITIATE" + bytes(300))),
    "half a greeting, slowly": _lingers(lambda victim: greeting(b"CURVE")[:40]),
    "half a handshake, slowly": _lingers(lambda victim: greeting(b"CURVE") + b"\x04\xc8\x05HELLO\x01\0" + bytes(70)),
    "many connections": _many_at_once,
    "a peer without keys": _peer("none"),
    "a peer with a password": _peer("plain"),
    "a peer with a key of its own": _peer("own key", zmq.EVENT_HANDSHAKE_FAILED_AUTH),
    "a peer with another listener's key": _peer("other listener"),
}
