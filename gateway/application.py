"""The routes of the gateway: its sites, and topics as Server-Sent Events and over WebSockets.

Two guards apply `Access` first. One refuses foreign pages. The other checks the token, after the CORS middleware, so
that the browser shows a refusal to a permitted page.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from tidewheel.gateway.access import Access, Refusal, tokens_in
from tidewheel.gateway.answers import HEADERS, answer, confess, refuse, refuse_http
from tidewheel.gateway.clients import Clients, asked
from tidewheel.gateway.health import PATHS_WITHOUT_TOKEN, health_routes
from tidewheel.gateway.live_message import END_ID
from tidewheel.gateway.reading_routes import reading_routes
from tidewheel.gateway.site import Site
from tidewheel.gateway.streams import EVENT_STREAM, EventStream, open_feed, serve_socket, topic_events
from tidewheel.gateway.topic_request import TopicRequest
from tidewheel.progress import TidewheelError
from tidewheel.pubsub.subscribers.topics import topics

_TOPICS_PREFIX, _EVENTS_SUFFIX = "/topics/", "/events"
"""The start and end of the path of a topic's Server-Sent Events; only such a path may have a token in its query."""


class _TopicName(PathConvertor):
    """Matches any text, since the name of a topic may contain slashes and blanks."""

    regex = r"[\s\S]+"


register_url_convertor("tidewheel_topic", _TopicName())


class Guard:
    """Passes on the requests that a rule permits.

    Args:
        refusal: returns the reason to refuse a request; None if it is allowed.
    """

    def __init__(self, app: ASGIApp, refusal: Callable[[HTTPConnection], Refusal | None]) -> None:
        self._app = app
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(HTTPConnection(scope)) if scope["type"] in {"http", "websocket"} else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        # A refusal closes the connection.
        headers = {"Connection": "close", **({"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {})}
        await answer({"message": refusal.message}, refusal.status, headers)(scope, receive, send)


def _tokens(request: HTTPConnection) -> list[str]:
    shown = tokens_in(request.headers.getlist("authorization"), request.scope.get("subprotocols", ()))
    path = request.scope["path"]
    may_be_in_query = path.startswith(_TOPICS_PREFIX) and path.endswith(_EVENTS_SUFFIX)
    return shown + (request.query_params.getlist("token") if may_be_in_query else [])


def _place_refusal(access: Access, sites: Sequence[Site], request: HTTPConnection) -> Refusal | None:
    return access.place_refusal(request.headers, may_be_opened=any(site.is_open(request) for site in sites))


def _token_refusal(access: Access, sites: Sequence[Site], request: HTTPConnection) -> Refusal | None:
    is_open = any(site.is_open(request) for site in sites) or request.scope["path"] in PATHS_WITHOUT_TOKEN
    return None if is_open else access.token_refusal(_tokens(request))


def _shows_token(access: Access, request: HTTPConnection) -> bool:
    return access.token_refusal(_tokens(request)) is None


async def _list_topics(request: Request) -> Response:
    return answer(await asyncio.wrap_future(asked(topics)))


def application(access: Access, clients: Clients, sites: Sequence[Site], keep_alive_s: float) -> ASGIApp:
    """Return the ASGI application of a gateway.

    After ``keep_alive_s`` seconds without an event, a stream shows that it is alive.
    """

    async def events(request: Request) -> Response:
        parameters = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
        wanted = TopicRequest.from_query(request.path_params["topic"], parameters)
        if request.headers.get("last-event-id") == END_ID:
            return Response(status_code=204, headers=HEADERS)  # with 204 an EventSource does not reconnect
        if request.method == "HEAD":
            return Response(headers=HEADERS, media_type=EVENT_STREAM)
        feed = await open_feed(clients, wanted, as_events=True)
        return EventStream(topic_events(feed, keep_alive_s), feed)

    app = Starlette(
        routes=[
            Route("/topics", _list_topics),
            Route(_TOPICS_PREFIX + "{topic:tidewheel_topic}" + _EVENTS_SUFFIX, events),
            WebSocketRoute("/topics/{topic:tidewheel_topic}/socket", partial(serve_socket, clients=clients)),
            *reading_routes(clients),
            *health_routes(has_token=lambda request: _shows_token(access, request)),
            *chain.from_iterable(site.routes(keep_alive_s) for site in sites),
        ],
        middleware=[
            Middleware(Guard, refusal=partial(_place_refusal, access, sites)),
            Middleware(
                CORSMiddleware,
                allow_origins=sorted(access.origins),
                allow_methods=["GET", "POST"],
                allow_headers=["Authorization", "Last-Event-ID", "Content-Type", "Idempotency-Key", "Prefer"],
            ),
            Middleware(Guard, refusal=partial(_token_refusal, access, sites)),
        ],
        exception_handlers={TidewheelError: refuse, HTTPException: refuse_http, Exception: confess},
    )
    app.router.redirect_slashes = False
    return app
