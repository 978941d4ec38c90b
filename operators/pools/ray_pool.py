"""The actors of a pool on Ray, on the side of the driver, which starts, watches, replaces and ends them.

- The driver owns the actors, so they end with its process. In place of an actor that has died, it starts one with the
  same name, by which workers find it.
- An actor counts as up once its model is made. A model whose constructor fails, or ends its process again and again,
  fails the job for good.
"""

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import ray
from ray.exceptions import ActorUnavailableError, RayError, RayTaskError

from tidewheel.host.attachment import AttachmentHost, RunningAttachment
from tidewheel.host.log_lines import LogSettings, about
from tidewheel.host.program_classes import CLASSES
from tidewheel.host.ray_cluster import NAMESPACE, actor_class, left, membership
from tidewheel.host.worker_names import WORKER_PREFIX
from tidewheel.operators.pools.actor_pool import ActorPool
from tidewheel.operators.pools.model_actor import ModelActor
from tidewheel.operators.pools.ray_pool_handle import RayPoolHandle
from tidewheel.progress import GraphError
from tidewheel.runtime.description.placement import Node, Placement, listed, reserving
from tidewheel.runtime.errors import JobError
from tidewheel.transport.frames import unpicklable

_LOGGER = logging.getLogger(__name__)

_ASK_S: Final = 1.0
_LOOK_S: Final = 0.1
_MOST_DEATHS: Final = 3
"""The number of actors that may die before their model is made, with none that comes up in between."""


class RayPool(RunningAttachment):
    """The actors of one pool, on the side of the driver; `check` replaces those that have died."""

    def __init__(self, pool: ActorPool, host: AttachmentHost) -> None:
        self._pool = pool
        self._host = host
        self._joined = membership()
        self._lock = threading.Lock()
        self._is_finished = False
        self._deaths = 0
        self._names = [f"{WORKER_PREFIX}{host.job}-{pool.operator}-actor-{n}" for n in range(pool.replicas)]
        self._actors: list[Any] = [None] * pool.replicas
        self._up: set[int] = set()
        self._asked: dict[Any, int] = {}
        self._due_s: dict[int, float] = {}
        """When the driver starts a missing actor, or asks a living one again, by number."""
        self._make = _put(pool)
        try:
            self._start_all()
        except BaseException:
            self.finish(None, 0.0)
            raise

    def _start_all(self) -> None:
        deadline_s = time.monotonic() + self._host.deploy_timeout_s
        try:
            for number in range(self._pool.replicas):
                self._start(number)
        except ValueError as error:
            raise JobError(f"{self._where}: Ray cannot start its actors: {error}", self._pool.operator) from error
        while not self._up:
            if time.monotonic() >= deadline_s:
                raise self._none_came_up()
            if self._asked:
                ray.wait(list(self._asked), timeout=min(_ASK_S, max(0.0, deadline_s - time.monotonic())))
            else:
                threading.Event().wait(_LOOK_S)
            self.check()

    def _start(self, number: int) -> None:
        """Start an actor; raise ValueError if Ray rejects its resources, or still has another of its name."""
        label = f"{self._host.job.rpartition('-')[0]} {self._pool.operator} actor {number}"
        options = {**reserving(self._pool.resources), "max_restarts": 0, "max_task_retries": 0}
        actor = (
            actor_class(ModelActor)
            .options(**options, name=self._names[number], namespace=NAMESPACE)
            .remote(label, self._make, LogSettings.here(job=self._host.job, operator=self._pool.operator))
        )
        self._actors[number] = actor
        self._asked[actor.ready.remote()] = number
        self.handles = [RayPoolHandle(self._actors, self._names)] * self._host.workers

    # ------------------------------------------------------------------ for the job

    @property
    def pending(self) -> Sequence[Any]:
        return list(self._asked)

    @property
    def has_ended(self) -> bool:
        return True

    @property
    def problem(self) -> str | None:
        """The number of missing actors, if some are."""
        missing = self._pool.replicas - len(self._up)
        reserved = f" Each reserves {listed(self._pool.resources)}." if self._pool.resources else ""
        return f"{missing} of {self._pool.replicas} are not up.{reserved}" if missing else None

    def check(self) -> None:
        """Ask living actors whether they are, and replace dead ones; never wait.

        Raises:
            JobError: the model cannot be made.
        """
        with self._lock:
            if self._is_finished:
                return
            for call in ray.wait(list(self._asked), num_returns=len(self._asked), timeout=0)[0] if self._asked else []:
                self._receive(self._asked.pop(call), call)
            now_s = time.monotonic()
            for number in [number for number, due_s in self._due_s.items() if due_s <= now_s]:
                del self._due_s[number]
                if self._actors[number] is not None:
                    self._asked[self._actors[number].ready.remote()] = number
                else:
                    self._replace(number)

    def _receive(self, number: int, call: Any) -> None:
        try:
            ray.get(call)
        except RayTaskError as error:
            raise self._pool.unmade(error.cause) from None
        except ActorUnavailableError:
            self._up.discard(number)
        except RayError as error:
            _LOGGER.warning("%s: actor %d has died and is replaced: %s", self._where, number, error, extra=self._about)
            if number not in self._up:
                self._deaths += 1
            self._up.discard(number)
            ray.kill(self._actors[number], no_restart=True)  # it is dead, but keeps its name while a process knows it
            self._actors[number] = None
            if self._deaths > _MOST_DEATHS:
                raise JobError(
                    f"{self._where}: {self._deaths} actors died before their model was made, the last with: {error}",
                    self._pool.operator,
                ) from error
            self._replace(number)
            return
        else:
            self._up.add(number)
            self._deaths = 0
        self._due_s[number] = time.monotonic() + _ASK_S

    def _replace(self, number: int) -> None:
        try:
            self._start(number)
        except ValueError:  # the name is free once Ray knows that the former actor has died
            self._due_s[number] = time.monotonic() + _LOOK_S

    def go_back(self, nodes: Sequence[str]) -> None:
        """Do nothing: the actors stay, and `handles` has those that there are now."""

    def finish(self, error: str | None, timeout_s: float, *, on_purpose: bool = False) -> None:
        """Kill the actors; idempotent."""
        with self._lock:
            self._is_finished = True
        if left(self._joined):
            return  # the actors have died with the cluster, or with this process's part in it
        for actor in self._actors:
            if actor is not None:
                ray.kill(actor, no_restart=True)

    # ------------------------------------------------------------------ errors

    @property
    def _where(self) -> str:
        return f"operator {self._pool.operator!r} of job {self._host.job!r}"

    @property
    def _about(self) -> dict[str, object]:
        return about(self._host.job, operator=self._pool.operator)

    def _none_came_up(self) -> JobError:
        needs = Placement("spread", self._pool.resources, {})
        found = [f"{node}: {needs.lacking(node) or 'has that, but perhaps not free'}" for node in Node.all()]
        return JobError(
            f"{self._where}: no actor has come up within {self._host.deploy_timeout_s:g} s (deploy_timeout_s). Each "
            f"reserves {listed(self._pool.resources)}, and its model has to be made.\n  " + "\n  ".join(found) + "\n"
            "Start a node that has what is asked for, ask for less (resources=), or wait longer",
            self._pool.operator,
        )


def _put(pool: ActorPool) -> Any:
    CLASSES.pickle_anew()
    try:
        return ray.put(pool.make)
    except Exception:
        reason = unpicklable(pool.make)
        if reason is not None:
            raise GraphError(
                f"operator {pool.operator!r}: what makes its model cannot be pickled, so it cannot be sent to the "
                f"actors: {reason}. Make what it uses in the constructor"
            ) from None  # Ray's own error has a page of text
        raise
