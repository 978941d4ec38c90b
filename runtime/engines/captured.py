"""Captured batches, as the driver reads them."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, overload

from tidewheel.batches.batches import Batch, length, unpack
from tidewheel.display.html_table import html_table
from tidewheel.host.program_classes import checked
from tidewheel.progress import Time
from tidewheel.runtime.errors import JobError

if TYPE_CHECKING:
    from ray import ObjectRef, ObjectRefGenerator

_FETCH_TIMEOUT_S = 120.0
"""How long workers may take to answer, in seconds."""

Kept: TypeAlias = Sequence[tuple[Time, Batch]]
"""The batches that one worker has kept, in order of arrival."""


@dataclass(frozen=True, slots=True)
class Captured:
    """One batch of a capture, with its time."""

    time: Time
    batch: Batch


class CapturedBatches(Sequence[Captured]):
    """The batches that ``stream.capture(name)`` has kept: worker by worker, and of each worker in order of arrival.

    The sequence equals a list of the same items, and prints like one.
    """

    def __init__(self, batches: list[Captured]) -> None:
        self._kept = batches

    @property
    def _batches(self) -> list[Captured]:
        return self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Captured]:
        return iter(self._batches)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Captured: ...
    @overload
    def __getitem__(self, index: slice) -> list[Captured]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Captured | list[Captured]:
        return self._batches[index]

    def __add__(self, other: Sequence[Captured]) -> list[Captured]:
        return [*self, *other]

    def __radd__(self, other: Sequence[Captured]) -> list[Captured]:
        return [*other, *self]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CapturedBatches | list):
            return NotImplemented
        return self._batches == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._batches)

    def _repr_html_(self) -> str:
        kept = self._batches
        batches = ((repr(one.time), one.batch) for one in kept)
        return html_table("captured", batches, sum(length(one.batch) for one in kept))

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self._batches,)


class CapturedOnWorkers(CapturedBatches):
    """The captured batches of a Ray job. They stay on the workers' nodes until the program reads them.

    Raises:
        JobError: a worker does not answer.
    """

    def __init__(self, job: str, name: str, actors: Sequence[Any]) -> None:
        import ray

        self._job = job
        self._name = name
        self._actors = actors
        calls = [actor.captured.options(num_returns=2).remote(job, name) for actor in actors]
        try:
            # Ray stores the counts only after it has pickled the batches.
            self._counts: list[int] = ray.get([count for _, count in calls], timeout=_FETCH_TIMEOUT_S)
        except ray.exceptions.RayError as error:
            raise self._error(error) from error
        # Objects that this process owns remain when the job has ended, each on the node of its worker.
        self._packed: list[ObjectRef[list[tuple[Time, Any]]]] = [packed for packed, _ in calls]
        self._fetched: list[Captured] | None = None
        self._fetching = threading.Lock()

    def __len__(self) -> int:
        return sum(self._counts)

    @property
    def _batches(self) -> list[Captured]:
        import ray

        with self._fetching:
            if self._fetched is None:
                try:
                    with checked():
                        parts = ray.get(self._packed, timeout=_FETCH_TIMEOUT_S)
                except ray.exceptions.RayError as error:
                    raise self._error(error) from error
                self._fetched = [Captured(at, unpack(batch)) for part in parts for at, batch in part]
                self._packed = []
            return self._fetched

    def _error(self, error: Exception) -> JobError:
        return JobError(f"capture {self._name!r} cannot be fetched from the workers: {error}")

    def on_workers(self, make: Callable[..., Iterator[Any]], *arguments: Any) -> "list[ObjectRefGenerator]":
        """Call ``make(kept, *arguments)`` on each worker; return, by worker, the yielded values as Ray objects.

        The objects belong to this process, and are on the workers' nodes. Fetching a worker's last object raises the
        worker's error, for example that the job has ended.
        """
        return [
            actor.over_captured.options(num_returns="streaming").remote(self._job, self._name, count, make, *arguments)
            for actor, count in zip(self._actors, self._counts, strict=True)
        ]
