"""The keys by which the members of a job know each other on sockets that others can reach."""

from dataclasses import dataclass, field
from typing import Self

import zmq


@dataclass(frozen=True, slots=True)
class SocketKeys:
    """Two CURVE key pairs, made anew for each job and given to its members only: whoever has them belongs to the job.

    Attributes:
        listener_public, listener_secret: of every socket that listens.
        caller_public, caller_secret: of every socket that connects.
    """

    listener_public: bytes
    listener_secret: bytes = field(repr=False)
    caller_public: bytes
    caller_secret: bytes = field(repr=False)

    @classmethod
    def make(cls) -> Self:
        """Make new keys."""
        return cls(*zmq.curve_keypair(), *zmq.curve_keypair())
