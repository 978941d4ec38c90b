"""The dataflows that a program has added to a running job, on whose workers they run."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from tidewheel.progress import GraphError
from tidewheel.runtime.errors import JobError

if TYPE_CHECKING:
    from tidewheel.runtime.engines.job import Job

J = TypeVar("J", bound="Job")


class AddedDataflows(Generic[J]):
    """The jobs of dataflows that were added to one job and not dropped, by the dataflow's name.

    Args:
        dataflow: the name of the job's own dataflow.
    """

    def __init__(self, job: str, dataflow: str) -> None:
        self._job = job
        self._dataflow = dataflow
        self._jobs: dict[str, J] = {}
        self._coming: set[str] = set()
        self._naming = threading.Lock()

    def __iter__(self) -> Iterator[J]:
        return iter(list(self._jobs.values()))

    @property
    def by_name(self) -> dict[str, J]:
        return dict(self._jobs)

    @contextmanager
    def coming(self, name: str) -> Iterator[None]:
        """Reserve a name while the ``with`` block deploys the dataflow; raise GraphError if the name is taken."""
        with self._naming:
            if name in {self._dataflow, *self._jobs, *self._coming}:
                raise GraphError(
                    f"job {self._job!r} runs a dataflow {name!r} already: drop() that, or give this another name"
                )
            self._coming.add(name)
        try:
            yield
        finally:
            self._coming.discard(name)

    def put(self, name: str, job: J) -> None:
        self._jobs[name] = job

    def take(self, name: str) -> J:
        """Remove and return the job with that name; raise JobError if there is none."""
        job = self._jobs.pop(name, None)
        if job is None:
            has = f"it has {sorted(self._jobs)}" if self._jobs else "it has none"
            own = "; its own dataflow ends with stop()" if name == self._dataflow else ""
            raise JobError(f"no dataflow {name!r} was added to job {self._job!r}: {has}{own}")
        return job
