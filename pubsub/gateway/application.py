"""The routes of the gateway: the list of topics, and each topic as Server-Sent Events and over a WebSocket."""

import asyncio

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from tidewheel.progress import TidewheelError
from tidewheel.pubsub import topics
from tidewheel.pubsub.gateway.access import Access
from tidewheel.pubsub.gateway.answers import HEADERS, answer, confess, refuse, refuse_http
from tidewheel.pubsub.gateway.clients import Clients
from tidewheel.pubsub.gateway.event_stream import MEDIA_TYPE, EventStream
from tidewheel.pubsub.gateway.guard import EVENTS_SUFFIX, Guard
from tidewheel.pubsub.gateway.live_message import END_ID, reader
from tidewheel.pubsub.gateway.socket_stream import SocketStream
from tidewheel.pubsub.gateway.topic_feed import OwnThread
from tidewheel.pubsub.gateway.topic_request import TopicRequest


class _TopicName(Convertor[str]):
    """Any text: the name of a topic may contain slashes, blanks and line breaks."""

    regex = r"[\s\S]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("tidewheel_topic", _TopicName())


class Pages:
    """The resources of the gateway.

    Args:
        clients: all clients of the gateway.
        keep_alive_s: an event stream sends a sign of life after so many seconds without an event.
    """

    def __init__(self, clients: Clients, keep_alive_s: float) -> None:
        self._clients = clients
        self._keep_alive_s = keep_alive_s

    async def topics(self, request: Request) -> Response:
        """Answer with the list of topics."""
        thread = OwnThread("tidewheel-gateway-topics")
        try:
            return answer(await asyncio.wrap_future(thread.submit(topics)))
        finally:
            thread.stop()

    async def events(self, request: Request) -> ASGIApp:
        """Answer with the events of a topic as Server-Sent Events."""
        parameters = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
        wanted = TopicRequest.from_query(request.path_params["topic"], parameters)
        if request.headers.get("last-event-id") == END_ID:
            return Response(status_code=204, headers=HEADERS)  # with 204 an EventSource does not reconnect
        if request.method == "HEAD":
            return Response(headers=HEADERS, media_type=MEDIA_TYPE)
        feed = self._clients.admit(wanted, reader(wanted, self._clients.max_epoch_bytes, as_events=True))
        try:
            await asyncio.wrap_future(feed.opened)
        except BaseException:
            feed.close()
            raise
        return EventStream(feed, self._keep_alive_s)

    async def socket(self, socket: WebSocket) -> None:
        """Serve a topic over a WebSocket."""
        await SocketStream(socket, self._clients).serve()


def application(access: Access, clients: Clients, keep_alive_s: float) -> ASGIApp:
    """Return the ASGI application of a gateway.

    Args:
        access: the rules for requests.
        clients: the clients that read now, and their limits.
        keep_alive_s: an event stream sends a sign of life after so many seconds without an event.
    """
    pages = Pages(clients, keep_alive_s)
    app = Starlette(
        routes=[
            Route("/topics", pages.topics),
            Route("/topics/{topic:tidewheel_topic}" + EVENTS_SUFFIX, pages.events),
            WebSocketRoute("/topics/{topic:tidewheel_topic}/socket", pages.socket),
        ],
        middleware=[
            Middleware(Guard, access=access, check="place"),
            Middleware(
                CORSMiddleware,
                allow_origins=sorted(access.origins),
                allow_methods=["GET"],
                allow_headers=["Authorization", "Last-Event-ID"],
            ),
            Middleware(Guard, access=access, check="token"),
        ],
        exception_handlers={TidewheelError: refuse, HTTPException: refuse_http, Exception: confess},
    )
    app.router.redirect_slashes = False
    return app
