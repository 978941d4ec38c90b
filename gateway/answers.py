"""The gateway's HTTP answers: JSON or, for an error, a status and a text."""

import logging
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tidewheel.gateway.errors import BadRequest, InputFull, TooLarge, TooManyClients, UnknownInput, UnknownJob
from tidewheel.gateway.json_form import encode_json
from tidewheel.pubsub.errors import UnknownTopic
from tidewheel.runtime.errors import JobError, JobRolledBack

_LOG = logging.getLogger(__name__)

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",  # so that a token in a query goes nowhere else
    "X-Content-Type-Options": "nosniff",
}
"""The headers of every answer."""

_PAGES = (
    "there are GET /, /jobs, /topics, /topics/NAME/events and WebSocket /topics/NAME/socket, and GET "
    "/topics/NAME/state, /lookups/NAME/KEY, /metrics, /healthz and /readyz; with --ingest JOB, POST and WebSocket "
    "/jobs/JOB/inputs/NAME"
)


def answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encode_json(content), status, {**HEADERS, **(headers or {})}, "application/json")


def status_of(error: Exception) -> int:
    match error:
        case TooLarge():
            return 413
        case BadRequest():
            return 400
        case UnknownTopic() | UnknownJob() | UnknownInput():
            return 404
        case InputFull():
            return 429
        case _:
            return 503  # no room, no cluster or no answer: a later request may succeed


def content_of(error: Exception) -> dict[str, Any]:
    return {"message": str(error), **({"topics": list(error.topics)} if isinstance(error, UnknownTopic) else {})}


def headers_of(error: Exception) -> dict[str, str]:
    """Return the headers for an error, which tell a client when to try again."""
    match error:
        case InputFull():
            return {"Retry-After": "1"}
        case TooManyClients() | JobError() | JobRolledBack():
            return {"Retry-After": "5"}
        case _:
            return {}


async def refuse(request: Request, error: Exception) -> Response:
    return answer(content_of(error), status_of(error), headers_of(error))


async def refuse_http(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return answer({"message": f"{error.detail}: {_PAGES}"}, error.status_code, error.headers)


async def confess(request: Request, error: Exception) -> Response:
    """Answer a request with an unexpected error, and log the error without the client's data."""
    return answer({"message": unexpected(error)}, 500)


def unexpected(error: BaseException) -> str:
    _LOG.error("the request of a client failed", exc_info=error)
    return "the gateway failed; its log says how"
