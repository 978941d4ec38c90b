"""The calls that one worker makes to a pool, on the event loop of its operator.

- A call returns the result of exactly one actor. If the actor is lost meanwhile, the call is repeated on another one.
- A repeated call has its actor for itself. So a batch that ends its actor, such as by too much memory, harms no other
  call again, and fails after `_MOST_LOSSES` repetitions.
- A call waits while no actor has room.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol, Self, TypeVar

from tidewheel.batches.batches import size_in_bytes
from tidewheel.batches.held_bytes import RecordSizes
from tidewheel.operators.pools.members import Member, Members

T = TypeVar("T")

_MOST_LOSSES: Final = 3


class ActorLost(Exception):  # noqa: N818 - named for what it says
    """The actor of a call has died, or cannot be reached; whether it has made the call is unknown."""


class PoolActor(Protocol):
    """One actor of a pool that is up.

    Attributes:
        batch_s: the seconds that a batch has taken its model lately; infinite as long as that is unknown.
    """

    batch_s: float

    async def call(self, batch: Any) -> Any:
        """Return what the model returns; raise what it raises, or ActorLost."""


class PoolHandle(Protocol):
    """A pool, as a worker receives it."""

    replicas: int

    async def join(self, number: int) -> PoolActor:
        """Return the actor of a number, from 0, once it is up."""


class PoolCalls:
    """An asynchronous context manager that is called with a batch: `AsyncCalls` enters and calls it.

    Args:
        worker: the number of the worker, of ``workers``.
    """

    def __init__(self, pool: PoolHandle, worker: int, workers: int) -> None:
        self._pool = pool
        self._members: Members[PoolActor] = Members(first=worker * pool.replicas // workers)
        self._keeping: list[asyncio.Task[None]] = []
        self._failure: Exception | None = None
        self._sizes = RecordSizes()
        self._waiting: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()

    async def __aenter__(self) -> Self:
        self._keeping = [asyncio.create_task(self._keep(number)) for number in range(self._pool.replicas)]
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)

    async def __call__(self, batch: Any) -> Any:
        """Return the result of a batch from one of the actors."""
        losses, size = 0, size_in_bytes(batch, self._sizes)
        while True:
            is_alone = losses > 0
            member = await (self._by_itself(size) if is_alone else self._until(lambda: self._members.take(size)))
            try:
                return await member.actor.call(batch)
            except ActorLost as lost:
                self._members.lose(member)
                losses += 1
                if losses > _MOST_LOSSES:
                    raise RuntimeError(
                        f"{losses} actors were lost while the model had this batch, {_MOST_LOSSES} of them with no "
                        "other batch. The batch may be what ends their processes: too little memory, sys.exit or a "
                        f"crash in native code. {lost}"
                    ) from lost.__cause__
            finally:
                self._members.give_back(member, size)
                member.batch_s = member.actor.batch_s
                member.is_reserved = member.is_reserved and not is_alone
                self._tell()

    async def _by_itself(self, size: int) -> Member[PoolActor]:
        while True:
            member = await self._until(self._members.reserve)
            await self._until(lambda: not member.calls or member.is_lost or None)  # noqa: B023 - awaited here
            if not member.is_lost:
                self._members.begin(member, size)
                return member

    async def _keep(self, number: int) -> None:
        """Let the actor of a number be a member whenever it is up."""
        try:
            while True:
                member = self._members.join(number, await self._pool.join(number))
                self._tell()
                await self._until(lambda: member.is_lost or None)  # noqa: B023 - awaited here
        except Exception as error:  # noqa: BLE001 - all calls raise it
            self._failure = error
            self._tell()

    def _tell(self) -> None:
        """Look again at what others wait for. It costs no step of a task that has to wait on."""
        waiting, self._waiting = self._waiting, deque()
        for found, coming in waiting:
            if coming.done():  # its task was cancelled
                continue
            if (result := found()) is not None:
                coming.set_result(result)
            elif self._failure is not None:
                coming.set_exception(self._failure)
            else:
                self._waiting.append((found, coming))

    async def _until(self, found: Callable[[], T | None]) -> T:
        if (result := found()) is not None:
            return result
        if self._failure is not None:
            raise self._failure
        coming: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((found, coming))
        return await coming
