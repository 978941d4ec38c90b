"""A site of a gateway through which programs outside Ray send records to the inboxes of jobs."""

import threading
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from tidewheel.gateway.errors import GatewayError, UnknownInput, UnknownJob
from tidewheel.gateway.lanes import Lanes, SnapshotWatch
from tidewheel.runtime.engines.job_by_name import job as find
from tidewheel.runtime.errors import JobError

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection
    from starlette.routing import BaseRoute


class Ingest:
    """Lets clients send records to the inboxes of some jobs: ``Gateway(config, [Ingest(["fraud"])])``.

    The jobs need not run yet. A job that is started again is found by the name of its dataflow.

    Args:
        jobs: the names of jobs or dataflows.

    Raises:
        GatewayError: there are no names.
    """

    def __init__(self, jobs: Collection[str]) -> None:
        if not jobs or isinstance(jobs, str):
            raise GatewayError(f"Ingest takes a list of names of jobs, such as ['fraud'], not {jobs!r}")
        self.jobs = tuple(jobs)
        self._finding = threading.Lock()  # held during calls of the cluster, so never by the event loop
        self._lock = threading.Lock()
        self._lanes: dict[tuple[str, str], Lanes] = {}
        self._watch: SnapshotWatch | None = None

    def lanes(self, job: str, name: str) -> Lanes | None:
        """Return the known lanes to an inbox; None if `find` must look for it."""
        return self._lanes.get((job, name))

    def find(self, job: str, name: str) -> Lanes:
        """Look for an inbox of a running job, by calls of the cluster that may take long.

        Raises:
            UnknownJob: the gateway takes no records for a job with this name.
            UnknownInput: the job has no inbox with this name.
            JobError: no job, or more than one job, with this name is running.
        """
        if job not in self.jobs:
            there = ", ".join(map(repr, self.jobs))
            raise UnknownJob(f"this gateway takes no records for job {job!r}, but for {there}: see --ingest")
        with self._finding:
            if (found := self._lanes.get((job, name))) is not None:
                return found
            running = find(job, timeout_s=0)
            try:
                running.input(name)
            except JobError as error:
                raise UnknownInput(str(error.args[0])) from None
            found = Lanes(running, name, running._workers)
            with self._lock:
                self._lanes[job, name] = found
            return found

    def forget(self, job: str, name: str, lanes: Lanes) -> None:
        """Forget an inbox whose job has ended, so that the next records look for it again."""
        with self._lock:
            if self._lanes.get((job, name)) is lanes:
                del self._lanes[job, name]
        lanes.close()

    @property
    def watch(self) -> SnapshotWatch:
        """The watch that tells whether snapshots have sent records."""
        with self._lock:
            if self._watch is None:
                self._watch = SnapshotWatch()
            return self._watch

    def routes(self, keep_alive_s: float) -> "Sequence[BaseRoute]":
        """Return the routes of the inboxes."""
        from tidewheel.gateway.ingest_routes import ingest_routes

        return ingest_routes(self)

    def is_open(self, request: "HTTPConnection") -> bool:
        """Return False: each request needs the token."""
        return False

    def close(self) -> None:
        """Send waiting records, accept no more, and do not wait."""
        with self._lock:
            lanes, self._lanes = list(self._lanes.values()), {}
            watch, self._watch = self._watch, None
        for one in lanes:
            one.close()
        if watch is not None:
            watch.close()
