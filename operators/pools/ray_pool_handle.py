"""The actors of a pool on Ray, on the side of a worker.

- A worker calls only actors that are up, so a model that takes long to load holds no call.
- Batches that wait for an actor at the same time travel in one call of Ray, a bundle. Each has a result of its own.
  If one of them has what cannot be pickled, each is called for again by itself, so that it harms no other.
- Two bundles are in progress at an actor: one that it works on, and one that waits there.
"""

import asyncio
from collections.abc import Sequence
from math import inf
from typing import Any, Final

import ray
from ray.exceptions import (
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    RayError,
    RayTaskError,
    WorkerCrashedError,
)

from tidewheel.host.ray_cluster import NAMESPACE
from tidewheel.operators.pools.members import MOST_CALLS, SURE_CALLS
from tidewheel.operators.pools.model_actor import Failure
from tidewheel.operators.pools.pool_calls import ActorLost

_LOOK_S: Final = 0.1
_MOST_BATCHES: Final = MOST_CALLS // SURE_CALLS
"""The most batches of a bundle."""

_LOST = (RayActorError, ObjectLostError, NodeDiedError, WorkerCrashedError, OutOfMemoryError)
"""Errors after which a call is repeated: its actor or its result is gone, and the model has raised nothing."""


class RayPoolActor:
    """An actor that is up."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self._waiting: list[tuple[Any, asyncio.Future[Any]]] = []
        self._bundles: set[asyncio.Task[None]] = set()
        self.batch_s = inf

    async def call(self, batch: Any) -> Any:
        loop = asyncio.get_running_loop()
        coming: asyncio.Future[Any] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._send)  # after all calls that begin now
        self._waiting.append((batch, coming))
        return await coming

    def _send(self) -> None:
        while self._waiting and len(self._bundles) < SURE_CALLS:
            bundle, self._waiting = self._waiting[:_MOST_BATCHES], self._waiting[_MOST_BATCHES:]
            task = asyncio.create_task(self._make_calls(bundle))
            self._bundles.add(task)
            task.add_done_callback(self._have_made)

    def _have_made(self, task: "asyncio.Task[None]") -> None:
        self._bundles.discard(task)
        self._send()

    async def _make_calls(self, bundle: Sequence[tuple[Any, "asyncio.Future[Any]"]]) -> None:
        # Ray writes large arguments and results once, to shared memory, from which tables are read without a copy.
        try:
            results, took_s = await self._actor.call.remote([batch for batch, _ in bundle])
            self.batch_s = took_s / len(bundle)
        except BaseException as error:  # noqa: BLE001 - each call raises it
            failure = _told(error)
            if len(bundle) > 1 and isinstance(failure.error, Exception) and not isinstance(failure.error, ActorLost):
                for one in bundle:
                    await self._make_calls([one])
                return
            results = [failure] * len(bundle)
        for (_, coming), result in zip(bundle, results, strict=True):
            if coming.done():  # its task was cancelled
                continue
            if isinstance(result, Failure):
                coming.set_exception(result.error)
            else:
                coming.set_result(result)


def _told(error: BaseException) -> Failure:
    if isinstance(error, RayTaskError):
        return Failure(error.cause)
    if isinstance(error, _LOST):
        lost = ActorLost(f"The last error: {error}")
        lost.__cause__ = error
        return Failure(lost)
    return Failure(error)


class RayPoolHandle:
    """A pool for one worker: the actors, and the names by which it finds those that replace them."""

    def __init__(self, actors: Sequence[Any], names: Sequence[str]) -> None:
        self._actors = list(actors)
        self._names = names
        self.replicas = len(names)

    async def join(self, number: int) -> RayPoolActor:
        while True:
            actor, self._actors[number] = self._actors[number], None
            try:
                if actor is None:
                    actor = await asyncio.to_thread(ray.get_actor, self._names[number], NAMESPACE)
                await actor.ready.remote()
            except (RayError, ValueError):  # it has died or was not replaced yet; the driver decides about the job
                await asyncio.sleep(_LOOK_S)
            else:
                return RayPoolActor(actor)
