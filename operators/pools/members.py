"""The actors of a pool as one worker sees them: which one its next call goes to.

- An actor has at most `SURE_CALLS` calls of the worker in progress: one that runs, and one that waits there meanwhile,
  so that the actor does not idle between two. While batches are small and the model is fast, it has up to
  `MOST_CALLS`, with at most `MOST_BYTES` together, which take it about `AHEAD_S`. These travel in bundles, as a trip
  takes longer than such a batch.
- A reserved actor gets no further calls. So a call can have an actor for itself.
- A lost actor gets no calls.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Final, Generic, TypeVar

Actor = TypeVar("Actor")

SURE_CALLS: Final = 2
MOST_CALLS: Final = 16
MOST_BYTES: Final = 8 << 20
AHEAD_S: Final = 0.2


@dataclass(slots=True, eq=False)
class Member(Generic[Actor]):
    """An actor that is up, with the number of this worker's calls in progress there."""

    number: int
    actor: Actor
    calls: int = 0
    bytes: int = 0
    batch_s: float = inf
    """The seconds that a batch has taken the model lately; infinite before the first result."""
    is_reserved: bool = False
    is_lost: bool = False


class Members(Generic[Actor]):
    """The actors that are up.

    Args:
        first: the number of the actor that this worker prefers among equally busy ones; others than other workers do.

    >>> members = Members()
    >>> members.take(1) is None
    True
    >>> for number in (0, 1):
    ...     _ = members.join(number, f"actor {number}")
    >>> taken = [members.take(MOST_BYTES) for _ in range(5)]
    >>> [member and member.actor for member in taken]
    ['actor 0', 'actor 1', 'actor 0', 'actor 1', None]
    >>> members.give_back(taken[1], MOST_BYTES)
    >>> members.take(1).actor
    'actor 1'
    """

    def __init__(self, first: int = 0) -> None:
        self._first = first
        self._members: list[Member[Actor]] = []

    def join(self, number: int, actor: Actor) -> Member[Actor]:
        member = Member(number, actor)
        self._members.append(member)
        self._members.sort(key=lambda one: (one.number < self._first, one.number))
        return member

    def lose(self, member: Member[Actor]) -> None:
        """Give an actor no further calls; idempotent."""
        member.is_lost = True
        if member in self._members:
            self._members.remove(member)

    def take(self, size: int) -> Member[Actor] | None:
        """Return the least busy actor, with one call of ``size`` bytes more; None if it has no room."""
        member = self._least_busy()
        if member is None:
            return None
        is_small = member.calls < MOST_CALLS and member.bytes + size <= MOST_BYTES
        if member.calls >= SURE_CALLS and not (is_small and member.calls * member.batch_s < AHEAD_S):
            return None
        self.begin(member, size)
        return member

    def begin(self, member: Member[Actor], size: int) -> None:
        member.calls += 1
        member.bytes += size

    def give_back(self, member: Member[Actor], size: int) -> None:
        """End a call of ``size`` bytes."""
        member.calls -= 1
        member.bytes -= size

    def reserve(self) -> Member[Actor] | None:
        """Return the least busy actor, reserved; None if there is none. It is free once it has no calls."""
        member = self._least_busy()
        if member is not None:
            member.is_reserved = True
        return member

    def _least_busy(self) -> Member[Actor] | None:
        free: Iterable[Member[Actor]] = (one for one in self._members if not one.is_reserved)
        return min(free, key=lambda one: one.calls, default=None)
