"""A gateway whose live page shows jobs made by hand."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from tidewheel.console import LivePage
from tidewheel.console.page.page_jobs import PageJobs
from tidewheel.gateway import Gateway, GatewayConfig
from tidewheel.pubsub.subscribers.view import View


class HandJobs:
    """Jobs that are where a test puts them, by a document each time."""

    def __init__(self) -> None:
        self._views: dict[str, SimpleQueue[View | Exception | None]] = {}
        self._before: dict[str, Mapping[str, Any]] = {}
        self.shown = self.pages()
        """The pages that the last gateway of `paged` shows."""
        self.readers = 0
        """How many readers follow a job now."""

    def put(self, *documents: Mapping[str, Any]) -> None:
        """Let jobs be as these documents say; a job begins with its first one."""
        for document in documents:
            name = document["job"]["name"]
            self._queue(name).put(View(document, self._before.get(name)))
            self._before[name] = document

    def end(self, name: str, problem: Exception | None = None) -> None:
        """End the telemetry of a job, as it has ended, or because of a problem."""
        self._queue(name).put(problem)
        self._before.pop(name, None)

    def find(self) -> list[str]:
        """Return the names of the jobs that run."""
        return list(self._before)

    @contextmanager
    def read(self, name: str) -> Iterator[Iterator[View]]:
        """Follow a job."""
        self.readers += 1
        try:
            yield self._follow(name)
        finally:
            self.readers -= 1

    def pages(self, **options: Any) -> PageJobs:
        """Return the jobs for a page."""
        return PageJobs(self.find, self.read, **options)

    def _follow(self, name: str) -> Iterator[View]:
        while (view := self._queue(name).get()) is not None:
            if isinstance(view, Exception):
                raise view
            yield view

    def _queue(self, name: str) -> "SimpleQueue[View | Exception | None]":
        return self._views.setdefault(name, SimpleQueue())


@contextmanager
def paged(jobs: HandJobs, **settings: Any) -> Iterator[Gateway]:
    """Run a gateway without Arrow Flight, at a free port unless told, for jobs made by hand."""
    jobs.shown = jobs.pages()
    with Gateway(GatewayConfig(**{"port": 0, "flight_port": None, **settings}), [LivePage(jobs.shown)]) as gateway:
        yield gateway


def picture(operators: Mapping[str, Any], edges: Mapping[str, Any], columns: int = 4) -> str:
    """Return a picture of operators in rows, as the runtime draws them, with a scope around those in one."""
    places = {number: (20 + 190 * (n % columns), 40 + 110 * (n // columns)) for n, number in enumerate(operators)}
    width, height = 20 + 190 * columns, 60 + 110 * (1 + (len(places) - 1) // columns)
    parts = [
        f'<g data-scope="{scope}"><rect x="6" y="6" width="{width - 12}" height="{height - 12}" rx="8"/>'
        f'<text x="14" y="22" font-size="12">{scope}</text></g>'
        for scope in dict.fromkeys(operator["scope"] for operator in operators.values() if operator["scope"])
    ]
    for number, edge in edges.items():
        (x, y), (to_x, to_y) = places[edge["source"]], places[edge["target"]]
        line = f'<path d="M{x + 80} {y + 64}L{to_x + 80} {to_y - 6}" fill="none" stroke="#444" stroke-width="1.2"/>'
        head = f'<path d="M{to_x + 76} {to_y - 8}h8l-4 8z" fill="#444"/>'
        parts.append(f'<g data-edge="{number}"><title>edge</title>{line}{head}</g>')
    for number, operator in operators.items():
        x, y = places[number]
        box = f'<rect x="{x}" y="{y}" width="160" height="64" rx="4" fill="#fff" stroke="#555"/>'
        name = f'<text x="{x + 80}" y="{y + 16}" text-anchor="middle" font-size="12">{operator["name"]}</text>'
        parts.append(f'<g data-operator="{number}"><title>{operator["name"]}</title>{box}{name}</g>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" style="background:#fff">'
    return "\n".join([head, *parts, "</svg>"])
