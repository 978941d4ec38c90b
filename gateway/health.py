"""The gateway's answers to monitoring programs: ``/healthz`` and ``/readyz``."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route

from tidewheel.gateway.answers import answer
from tidewheel.gateway.clients import asked
from tidewheel.gateway.errors import GatewayError
from tidewheel.progress import TidewheelError
from tidewheel.pubsub.subscribers.topics import topics

Answer = TypeVar("Answer")

PATHS_WITHOUT_TOKEN = frozenset({"/healthz", "/readyz"})
"""The paths that need no token. A client without a token receives only the status."""

_FRESH_S = 1.0
_ANSWERS_WITHIN_S = 5.0


class OneQuestion(Generic[Answer]):
    """A call to the cluster that may hang, used on the event loop.

    However many clients ask, one call is pending at a time, and its answer is valid for a second.

    Args:
        question: asks the cluster; raises TidewheelError if there is no cluster.
    """

    def __init__(self, question: Callable[[], Answer], within_s: float = _ANSWERS_WITHIN_S) -> None:
        self._question = question
        self._within_s = within_s
        self._asked: Future[Answer] | None = None
        self._asked_s = 0.0

    async def answer(self) -> Answer:
        """Return the answer or raise the error of ``question``; raise GatewayError if it takes too long."""
        now = time.monotonic()
        if self._asked is None or (self._asked.done() and now - self._asked_s > _FRESH_S):
            self._asked, self._asked_s = asked(self._question), now
        waiting = asyncio.wrap_future(self._asked)
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())  # or asyncio logs a late error
        await asyncio.wait([waiting], timeout=self._within_s)
        if not waiting.done():
            raise GatewayError(f"the cluster has not answered for {now - self._asked_s + self._within_s:.0f} s")
        return waiting.result()

    async def problem(self) -> str | None:
        try:
            await self.answer()
        except TidewheelError as error:
            return str(error)
        return None


def health_routes(has_token: Callable[[HTTPConnection], bool]) -> list[Route]:
    """Return the routes. Only a request with the token gets the reason why the gateway is not ready."""
    readiness = OneQuestion(topics)

    async def health(request: Request) -> Response:
        return answer({"status": "ok"})

    async def ready(request: Request) -> Response:
        problem = await readiness.problem()
        if problem is None:
            return answer({"status": "ok"})
        said = problem if has_token(request) else "the gateway is not ready; with the token it says why"
        return answer({"status": "not ready", "message": said}, 503)

    return [Route("/healthz", health), Route("/readyz", ready)]
