"""The models of a pool in the process of a local job: each on a thread of its own, which makes and calls it."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from math import inf
from typing import Any

from tidewheel.batches.batches import copy_of, is_numpy
from tidewheel.host.attachment import AttachmentHost, RunningAttachment
from tidewheel.operators.pools.actor_pool import ActorPool
from tidewheel.operators.pools.model import Model, called_model, made_model
from tidewheel.operators.pools.model_thread import ModelThread


class LocalActor:
    """A model with its thread, which makes one call at a time."""

    def __init__(self, thread: ModelThread, model: Model) -> None:
        self._thread = thread
        self._model = model
        self.batch_s = inf

    async def call(self, batch: Any) -> Any:
        return await asyncio.wrap_future(self._thread.submit(partial(self._call, batch)))

    def _call(self, batch: Any) -> Any:
        if is_numpy(batch):
            batch.flags.writeable = False  # as Ray's are: what runs here runs there
        return copy_of(called_model(self._model, batch))


class LocalPoolHandle:
    """The models, which all workers of the process share."""

    def __init__(self, actors: Sequence[LocalActor]) -> None:
        self._actors = actors
        self.replicas = len(actors)

    async def join(self, number: int) -> LocalActor:
        return self._actors[number]


class LocalPool(RunningAttachment):
    """Makes all models before the job starts."""

    def __init__(self, pool: ActorPool, host: AttachmentHost) -> None:
        self._threads = [ModelThread(f"tidewheel-{pool.operator}-{number}") for number in range(pool.replicas)]
        try:
            making: list[Future[Model]] = [thread.submit(partial(made_model, pool.make)) for thread in self._threads]
            models = [one.result() for one in making]
        except BaseException as error:
            self.finish(None, 0.0)
            if isinstance(error, Exception):
                raise pool.unmade(error) from error
            raise
        self.handles = [LocalPoolHandle(list(map(LocalActor, self._threads, models)))] * host.workers

    @property
    def problem(self) -> str | None:
        return None

    @property
    def pending(self) -> Sequence[Any]:
        return ()

    @property
    def has_ended(self) -> bool:
        return True

    def check(self) -> None:
        """Do nothing, as threads do not die."""

    def go_back(self, nodes: Sequence[str]) -> None:
        """Do nothing, as a model keeps no state."""

    def finish(self, error: str | None, timeout_s: float, *, on_purpose: bool = False) -> None:
        """End the threads; one that runs a model ends after that call."""
        for thread in self._threads:
            thread.end()
