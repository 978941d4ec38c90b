"""The routes of the live page: its files, the list of jobs, and the stream and history of each job.

The files have no data of jobs, so a browser loads them without a token. For everything else, the page sends the token
in a header. It reads the token from the fragment of its address, which a browser never sends. A cookie would be sent to
every port of this machine.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import cache
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route

from tidewheel.console.page.job_page import END_EVENT, JobPage
from tidewheel.console.page.page_jobs import PageJobs
from tidewheel.gateway.answers import HEADERS, answer
from tidewheel.gateway.clients import asked
from tidewheel.gateway.streams import EventStream

FILES = Path(__file__).parent / "files"
"""The folder of the page's files, which need no build."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy: only scripts and styles from these files, and no requests to other servers."""

_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PREFIX = "/page/"
_KEEP_ALIVE = b": the job lives\n\n"


def is_file(request: HTTPConnection) -> bool:
    path: str = request.scope["path"]
    return path == "/" or path.startswith(_PREFIX)


@cache
def _files() -> dict[str, bytes]:
    paths = [path for path in FILES.rglob("*") if path.suffix in _MEDIA_TYPES]
    return {path.relative_to(FILES).as_posix(): path.read_bytes() for path in paths}


async def _file(request: Request) -> Response:
    name = request.path_params.get("file", "index.html")
    content = _files().get(name)
    if content is None:
        raise HTTPException(404, "the page has no such file")
    headers = {
        **HEADERS,
        "Content-Security-Policy": POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    return Response(content, 200, headers, _MEDIA_TYPES[Path(name).suffix])


async def job_events(page: JobPage, keep_alive_s: float) -> AsyncGenerator[bytes, None]:
    """Yield the events of a job's page for one browser, until the job ends.

    The first event is the full document; the others are changes. A browser that has missed a change receives the full
    document again. After ``keep_alive_s`` seconds without an event, this yields a comment.
    """
    number = 0
    with page.listening() as changed:
        yield _KEEP_ALIVE  # the browser sees an open stream at once
        while not page.is_stopped:
            changed.clear()
            shown = page.shown
            if shown.number > number:
                yield shown.event_after(number)
                number = shown.number
                if shown.is_last:
                    yield END_EVENT
                    return
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), keep_alive_s)
                continue
            yield _KEEP_ALIVE


def page_routes(jobs: PageJobs, keep_alive_s: float) -> list[Route]:
    """Return the routes; an idle stream sends a sign of life every ``keep_alive_s`` seconds."""

    async def summaries(_: Request) -> Response:
        return answer(await asyncio.wrap_future(asked(jobs.look)))

    async def events(request: Request) -> Response:
        name = request.path_params["job"]
        if not jobs.knows(name):
            await asyncio.wrap_future(asked(jobs.look))
        page = jobs.page(name)
        jobs.check_room()
        return EventStream(job_events(page, keep_alive_s))

    async def history(request: Request) -> Response:
        return answer(jobs.page(request.path_params["job"]).history(request.path_params["operator"]))

    return [
        Route("/", _file),
        Route(_PREFIX + "{file:path}", _file),
        Route("/jobs", summaries),
        Route("/jobs/{job:tidewheel_topic}/events", events),
        Route("/jobs/{job:tidewheel_topic}/operators/{operator}", history),
    ]
