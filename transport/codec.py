"""The codec of a link between a parent and its children, which know nothing of what the messages mean."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from tidewheel.transport.socket_frames import Payload

Message: TypeAlias = Any
"""A message of the users of a link: what a parent tells, or what a child says."""

HAS_GONE: Final = "it has gone"
"""Why a link ended where the peer did not break the protocol."""


class Unsaid(Protocol):
    """What a child has to say and could not say yet; false if that is nothing."""

    def __bool__(self) -> bool: ...

    def add(self, message: Message, /) -> None:
        """Take something to say, in the place of what that makes superfluous."""

    def take(self) -> list[Message]:
        """Return what there is to say, in order, and forget it."""


@dataclass(frozen=True, slots=True)
class Codec:
    """How messages become frames, and which of them a link treats in a way of their own.

    Attributes:
        encode: returns the parts of the frames of a message.
        decode_told: returns the message of a frame that a parent has sent; raises ProtocolError.
        decode_said: returns the message of a frame that a child has sent; raises ProtocolError.
        most_told_bytes: a frame of a parent has a payload of at most so many bytes.
        size_of: returns about how many bytes a message has in memory.
        must_be_told: whether a message is told even to a child that has no room for it.
        joins: whether by a message a child says who it is; a child without a socket says such a message first.
        unsaid: returns an empty place for what a child has to say.
    """

    encode: Callable[[Message], list[Any]]
    decode_told: Callable[[Payload, Payload], Message]
    decode_said: Callable[[Payload, Payload], Message]
    most_told_bytes: int
    size_of: Callable[[Message], int]
    must_be_told: Callable[[Message], bool]
    joins: Callable[[Message], bool]
    unsaid: Callable[[], Unsaid]
