"""The page of one job: its document with additional numbers, the last change, and the history."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tidewheel.console.page.job_history import JobHistory
from tidewheel.console.page.lag import Fronts
from tidewheel.console.page.live_numbers import with_live_numbers
from tidewheel.display.merge_patch import patch
from tidewheel.gateway.json_form import encode_json
from tidewheel.pubsub.subscribers.view import ENDED_STATES, View

END_EVENT = b"event: end\ndata: {}\n\n"
"""The last event of a page."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The page at one moment.

    Args:
        number: the number of the moment, from 1; 0 is an empty page.
        document: the job's document, with the numbers that the page adds as ``live``.
        change: the merge patch from the previous moment, as JSON.
    """

    number: int = 0
    document: dict[str, Any] | None = None
    change: bytes = b"{}"
    is_last: bool = False

    def event_after(self, number: int) -> bytes:
        """Return the Server-Sent Event for a browser that has moment ``number``: a change, or the full document."""
        if number == self.number - 1 and number:
            return b"event: patch\ndata: %b\n\n" % self.change
        return b"event: whole\ndata: %b\n\n" % encode_json(self.document)


class JobPage:
    """The page of one job. One thread adds views of the job; any thread may read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.shown = Shown()
        """The page that browsers see."""
        self.is_stopped = False
        """Whether the gateway stops, so that browsers receive nothing more."""
        self.is_followed = threading.Event()
        """Set once the telemetry of the job arrives in this process."""
        self._fronts = Fronts()
        self._history = JobHistory()
        self._lock = threading.Lock()
        self._listeners: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def receive(self, view: View) -> None:
        before, document = self.shown, dict(with_live_numbers(view, self._fronts).document)
        moment: dict[str, dict[str, Any]] = {}
        for number, one in view.document.get("operators", {}).items():
            amounts = {name: one[name] for name in ("queue", "state_keys", "state_bytes") if name in one}
            moment[number] = {**amounts, **document["live"]["operators"][number]}
        with self._lock:
            self._history.add(document["at"], moment)
        self._show(Shown(before.number + 1, document, encode_json(patch(before.document or {}, document))))

    def end(self, problem: str | None = None) -> None:
        """Show that no more views will arrive.

        Args:
            problem: the reason; the page shows the job as lost, unless it has ended. None after a regular end.
        """
        before = self.shown
        document: dict[str, Any] = before.document or {"job": {"name": self.name}, "live": {"operators": {}}}
        if problem is not None and document["job"].get("state") not in ENDED_STATES:
            document = {**document, "job": {**document["job"], "state": "lost", "error": problem}}
            workers, inputs = document.get("workers", {}), document.get("inputs", {})
            document["workers"] = {number: {**worker, "state": "lost"} for number, worker in workers.items()}
            document["inputs"] = {
                name: {k: v for k, v in port.items() if k != "is_open"} for name, port in inputs.items()
            }
        change = encode_json(patch(before.document or {}, document))
        self._show(Shown(before.number + 1, document, change, is_last=True))

    def history(self, operator: str) -> dict[str, list[float]]:
        """Return the last ten minutes of an operator, by columns."""
        with self._lock:
            return self._history.of(operator)

    def summary(self) -> dict[str, Any]:
        document = self.shown.document or {}
        job = {name: value for name, value in document.get("job", {}).items() if not isinstance(value, list | dict)}
        live = document.get("live", {})
        return {**job, "name": self.name, "records": live.get("records"), "operators": len(live.get("operators", {}))}

    @contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        """Yield an event of the running loop, which is set at each change."""
        listener = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._listeners.add(listener)
        try:
            yield listener[1]
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def stop(self) -> None:
        """End the streams of all browsers; the page itself stays."""
        self.is_stopped = True
        self._ring()

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def _show(self, shown: Shown) -> None:
        self.shown = shown
        self._ring()

    def _ring(self) -> None:
        with self._lock:
            listeners = tuple(self._listeners)
        for loop, event in listeners:
            with suppress(RuntimeError):  # its server has stopped
                loop.call_soon_threadsafe(event.set)
