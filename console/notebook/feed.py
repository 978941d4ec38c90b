"""The feed of a notebook's view: a thread that reads a job or topic, and sends the page's content to the browser.

While a kernel runs a cell, it receives nothing from the browser. So the feed begins without a request. It sends full
pages until a view has reported, and then changes.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol, TypeAlias

from tidewheel.console.page.job_page import END_EVENT, Shown
from tidewheel.gateway.json_form import encode_json
from tidewheel.progress import TidewheelError

_LOGGER = logging.getLogger(__name__)

MOST_QUIET: Final = 60
"""The feed ends after this many changes without a sign of life from a view. A job changes once a second."""

Message: TypeAlias = Mapping[str, Any]
"""A JSON message between kernel and browser; `widget.js` lists the kinds."""


class Page(Protocol):
    """The content of views: a `JobPage`, or the points of a chart."""

    @property
    def shown(self) -> Shown: ...

    def receive(self, news: Any, /) -> None: ...

    def end(self, problem: str | None = None, /) -> None: ...

    def history(self, part: str, /) -> Mapping[str, Any]: ...


class Reader(Protocol):
    """The source of the data: a `TelemetryReader`, or a topic."""

    def __iter__(self) -> Iterator[Any]: ...

    def close(self) -> None:
        """End the iteration; thread-safe."""


class Feed:
    """Feeds all views of one widget.

    Args:
        read: returns a reader; called on the feed's thread.
        send: sends a message to all views; thread-safe.
        when_idle: calls a function once the kernel runs no cell; thread-safe. None if the kernel does not support this.
    """

    def __init__(
        self,
        page: Page,
        read: Callable[[], Reader],
        send: Callable[[Message], None],
        when_idle: Callable[[Callable[[], None]], Any] | None = None,
    ) -> None:
        self._page = page
        self._read = read
        self._send = send
        self._when_idle = when_idle
        self._lock = threading.RLock()
        self._views: set[str] = set()
        self._sent = self._quiet = 0
        self._is_idle = True
        self._is_wanted = False
        self._is_stopped = False  # this reading is stopped; another one may start after it
        self._reader: Reader | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    def start(self) -> None:
        """Begin to read, unless everything has been read."""
        with self._lock:
            self._is_wanted, self._quiet = True, 0
            if self._thread is None and not self._page.shown.is_last:
                self._is_stopped = False
                self._thread = threading.Thread(target=self._run, name="tidewheel-notebook", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        with self._lock:
            self._is_wanted, self._is_stopped, reader = False, True, self._reader
        if reader is not None:
            reader.close()

    def hear(self, message: Message) -> None:
        if "ask" in message:
            part = str(message.get("path", "")).rpartition("/")[2]
            self._send({"answer": message["ask"], "data": encode_json(self._page.history(part)).decode()})
        elif "leave" in message:
            self._views.discard(message["leave"])
            if not self._views:
                self.stop()
        elif "here" in message:
            with self._lock:
                if message.get("whole"):  # the other views then report that they are still there
                    self._views, self._sent = set(), 0
                self._views.add(message["here"])
                self._tell()
            self.start()

    def _tell(self) -> None:
        with self._lock:
            shown, known = self._page.shown, self._sent if self._views else 0
            self._sent = shown.number
            if shown.number != known:
                self._send({"number": shown.number, "event": shown.event_after(known).decode()})
                if shown.is_last:
                    self._send({"number": shown.number, "event": END_EVENT.decode()})

    # ------------------------------------------------------------------ on a thread of its own

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            problem: str | None = None
            try:
                self._follow()
            except TidewheelError as error:
                problem = str(error)
            except Exception as error:
                _LOGGER.exception("a view in a notebook is not updated any more")
                problem = f"{type(error).__name__}: {error}"
            if not self._is_stopped:
                self._page.end(problem)
                self._tell()
            goes_on = self._goes_on()

    def _goes_on(self) -> bool:
        with self._lock:
            self._reader = None
            if self._is_wanted and not self._page.shown.is_last:
                self._is_stopped = False
                return True
            self._thread = None
            return False

    def _follow(self) -> None:
        reader = self._read()
        with self._lock:
            self._reader = reader
        try:
            for news in () if self._is_stopped else reader:
                self._page.receive(news)
                self._tell()
                if not self._is_watched():
                    self.stop()
        finally:
            reader.close()

    def _is_watched(self) -> bool:
        if self._is_idle and self._when_idle is not None:
            self._is_idle = False
            self._quiet += 1
            try:
                self._when_idle(self._note_idle)
            except RuntimeError:  # the kernel ends
                return False
        return self._quiet <= MOST_QUIET

    def _note_idle(self) -> None:
        self._is_idle = True
