"""The ASGI middleware that asks `Access` before anything else sees a request."""

from collections.abc import Callable
from typing import Literal, TypeAlias
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from tidewheel.pubsub.gateway.access import Access, Credentials, Refusal
from tidewheel.pubsub.gateway.answers import answer

Check: TypeAlias = Literal["place", "token"]

EVENTS_SUFFIX = "/events"
"""The end of the paths of Server-Sent Events. Only these requests may have the token in the query."""


class Guard:
    """Passes the requests on that one half of the rules permits.

    The application has two guards. The first refuses requests from foreign pages. The second checks the token and runs
    behind CORS, so that the browser shows its refusal to a permitted page.

    Args:
        app: the application behind the guard.
        access: the rules.
        check: the half of the rules to apply.
    """

    def __init__(self, app: ASGIApp, access: Access, check: Check) -> None:
        self._app = app
        self._refusal: Callable[[Credentials], Refusal | None]
        self._refusal = access.place_refusal if check == "place" else access.token_refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer with the reason of a refusal; refuse a WebSocket before it opens."""
        refusal = self._refusal(_credentials(scope)) if scope["type"] in {"http", "websocket"} else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        # A refused client does not keep its connection.
        headers = {"Connection": "close", **({"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {})}
        await answer({"message": refusal.message}, refusal.status, headers)(scope, receive, send)


def _credentials(scope: Scope) -> Credentials:
    headers = Headers(scope=scope)
    query_token = None
    if scope["path"].endswith(EVENTS_SUFFIX):
        query_token = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token")
    return Credentials(
        host=headers.get("host"),
        origin=headers.get("origin"),
        site=headers.get("sec-fetch-site"),
        authorization=headers.get("authorization"),
        subprotocols=tuple(scope.get("subprotocols", ())),
        query_token=query_token,
    )
