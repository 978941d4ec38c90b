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
"""How the paths of Server-Sent Events end; only there a token may be in the query."""


class Guard:
    """Lets requests through that one half of the rules permits.

    It comes twice: what a page may not ask is refused first, whatever else there is; the token is looked at behind
    CORS, so that a page that may ask is shown the refusal.

    Args:
        app: what the requests are for.
        access: the rules.
        check: which of them.
    """

    def __init__(self, app: ASGIApp, access: Access, check: Check) -> None:
        self._app = app
        self._refusal: Callable[[Credentials], Refusal | None]
        self._refusal = access.place_refusal if check == "place" else access.token_refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why not; a WebSocket is refused before it is opened."""
        refusal = self._refusal(_credentials(scope)) if scope["type"] in {"http", "websocket"} else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        # Whoever is refused does not keep a connection.
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
