"""The addresses at which the members of a job listen."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidewheel.transport.socket_keys import SocketKeys

DRIVER: Final = -1
"""The number of the driver; workers count from 0, other processes that feed inputs have numbers below."""

_LONGEST_PATH = 100


@dataclass(frozen=True, slots=True)
class SocketAddress:
    """Where a member listens: ``ipc`` and ``datagrams`` for members on the same node, ``tcp`` for any others.

    ``datagrams`` is a path; the others are addresses of ZeroMQ.
    """

    node: str
    ipc: str
    datagrams: str
    tcp: str | None = None


@dataclass(frozen=True, slots=True)
class SocketPeers:
    """What it takes to reach the workers of a dataflow: where they listen, and its keys."""

    addresses: Sequence[SocketAddress]
    keys: SocketKeys

    def reachable_from(self, node: str) -> bool:
        """Tell whether a member on ``node`` can connect to all of them."""
        return all(address.node == node or address.tcp is not None for address in self.addresses)


def private_directory() -> str:
    """Make a directory that only this user can enter, with a path short enough for a socket's address."""
    directory = tempfile.mkdtemp(prefix=f"tidewheel-{os.getpid()}-")
    if len(directory) > _LONGEST_PATH:
        Path(directory).rmdir()
        directory = tempfile.mkdtemp(prefix=f"tidewheel-{os.getpid()}-", dir="/tmp")
    return directory
