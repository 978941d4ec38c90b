"""The jobs of the page, each with a thread that receives its telemetry.

The page finds jobs when a browser asks for them. It follows them while a browser shows the page, and for ten more
minutes. A limited number of ended jobs stays on the page.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from tidewheel.console.page.found_jobs import found_jobs
from tidewheel.console.page.job_history import MOMENTS
from tidewheel.console.page.job_page import JobPage
from tidewheel.gateway.clients import STOPPED
from tidewheel.gateway.errors import TooManyClients, UnknownJob
from tidewheel.host.log_lines import about
from tidewheel.progress import TidewheelError
from tidewheel.pubsub.subscribers.telemetry_reader import TelemetryReader
from tidewheel.pubsub.subscribers.view import ENDED_STATES, View

_LOGGER = logging.getLogger(__name__)

Read: TypeAlias = Callable[[str], AbstractContextManager[Iterable[View]]]
"""Follows a job, given its name: a context manager that yields the job's views until the job ends."""

MOST_ENDED = 20
"""The largest number of ended jobs that stay on the page."""


class PageJobs:
    """The pages of all found jobs; thread-safe.

    Args:
        find: returns the names of the running jobs; it may wait for a cluster.
    """

    def __init__(
        self,
        find: Callable[[], Iterable[str]] = found_jobs,
        read: Read = TelemetryReader,
        *,
        most: int = 100,
        linger_s: float = float(MOMENTS),
    ) -> None:
        self._find = find
        self._read = read
        self._most = most
        self._linger_s = linger_s
        self._lock = threading.Lock()
        self._pages: dict[str, JobPage] = {}
        self._looked_s = -math.inf
        self._is_closed = False

    def look(self) -> list[dict[str, Any]]:
        """Return a summary of each job, the newest first, and begin to follow new jobs.

        Raises:
            TidewheelError: the cluster does not answer, and no job is known.
        """
        names: list[str] = []
        try:
            names += self._find()
        except TidewheelError:  # a program may have ended, and its cluster with it
            if not self._pages:
                raise
        with self._lock:
            self._looked_s = time.monotonic()
            for name in names:
                shown = None if (page := self._pages.get(name)) is None else page.shown
                state = None if shown is None else (shown.document or {}).get("job", {}).get("state")
                if not self._is_closed and (shown is None or (shown.is_last and state not in ENDED_STATES)):
                    self._pages[name] = JobPage(name)
                    thread = threading.Thread(
                        target=self._follow, args=(self._pages[name],), name=f"tidewheel-page-{name}", daemon=True
                    )
                    thread.start()
            pages = list(self._pages.values())
        return sorted((page.summary() for page in pages), key=lambda job: -float(job.get("since") or math.inf))

    def documents(self) -> dict[str, dict[str, Any]]:
        """Return the last document of each job, by name, and begin to follow new jobs.

        Raises:
            TidewheelError: as for `look`.
        """
        self.look()
        with self._lock:
            documents = {name: page.shown.document for name, page in self._pages.items()}
        return {name: document for name, document in documents.items() if document is not None}

    def knows(self, name: str) -> bool:
        with self._lock:
            return name in self._pages

    def page(self, name: str) -> JobPage:
        """Return the page of a job; raise UnknownJob if there is no such job."""
        with self._lock:
            found = self._pages.get(name)
            known = ", ".join(map(repr, self._pages)) or "none"
        if found is None:
            raise UnknownJob(f"there is no job {name!r}; jobs on this page: {known}")
        return found

    def check_room(self) -> None:
        """Raise TooManyClients if the page has its largest number of clients, or the gateway is stopping."""
        with self._lock:
            if self._is_closed:
                raise TooManyClients(STOPPED)
            if sum(page.listeners for page in self._pages.values()) >= self._most:
                raise TooManyClients(f"{self._most} browsers look at jobs of this gateway already: try again later")

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            pages = list(self._pages.values())
        for page in pages:
            page.stop()

    def _follow(self, page: JobPage) -> None:
        problem: str | None = None
        try:
            with self._read(page.name) as views:
                page.is_followed.set()
                for view in views:
                    page.receive(view)
                    if not self._is_watched():
                        self._forget(page)
                        return
        except TidewheelError as error:
            problem = str(error)
        except SystemExit:  # Ray raises it in threads when this process leaves the cluster
            problem = "the gateway has lost its Ray cluster"
        except Exception as error:
            problem = f"the gateway cannot follow it any more: {error!r}"
            _LOGGER.exception("the page of job %r ends", page.name, extra=about(page.name))
        if page.shown.document is None:
            self._forget(page)  # it ended before it was found
        page.end(problem)
        with self._lock:
            ended = [one for one in self._pages.values() if one.shown.is_last and not one.listeners]
        for old in ended[:-MOST_ENDED]:
            self._forget(old)

    def _is_watched(self) -> bool:
        now_s = time.monotonic()
        with self._lock:
            if any(page.listeners for page in self._pages.values()):
                self._looked_s = now_s
            return not self._is_closed and now_s - self._looked_s <= self._linger_s

    def _forget(self, page: JobPage) -> None:
        with self._lock:
            if self._pages.get(page.name) is page:
                del self._pages[page.name]
