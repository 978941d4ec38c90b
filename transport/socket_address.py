"""The addresses of a job's members, and the keys by which they authenticate."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

DRIVER: Final = -1
"""The driver's number. Workers are numbered from 0 on; other processes that feed inputs have numbers below -1."""

_LONGEST_PATH = 100


@dataclass(frozen=True, slots=True)
class SocketAddress:
    """The addresses at which a member listens: ``ipc`` and ``datagrams`` for members on its node, ``tcp`` for others.

    ``datagrams`` is a path; the others are ZeroMQ addresses.
    """

    node: str
    ipc: str
    datagrams: str
    tcp: str | None = None


@dataclass(frozen=True, slots=True)
class SocketKeys:
    """Two CURVE key pairs, made anew for each job and known only to its members."""

    listener_public: bytes
    listener_secret: bytes = field(repr=False)
    caller_public: bytes
    caller_secret: bytes = field(repr=False)

    @classmethod
    def make(cls) -> Self:
        import zmq  # most processes with an address have no socket

        return cls(*zmq.curve_keypair(), *zmq.curve_keypair())


@dataclass(frozen=True, slots=True)
class SocketPeers:
    addresses: Sequence[SocketAddress]
    keys: SocketKeys

    def reachable_from(self, node: str) -> bool:
        return all(address.node == node or address.tcp is not None for address in self.addresses)


def private_directory() -> str:
    """Make a directory that only this user can open. Its path is short enough for a socket's address."""
    directory = tempfile.mkdtemp(prefix=f"tidewheel-{os.getpid()}-")
    if len(directory) > _LONGEST_PATH:
        Path(directory).rmdir()
        directory = tempfile.mkdtemp(prefix=f"tidewheel-{os.getpid()}-", dir="/tmp")
    return directory


def named(member: int) -> str:
    return "the driver" if member == DRIVER else f"worker {member}" if member >= 0 else "a feeder"
