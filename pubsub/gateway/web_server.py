"""Runs the ASGI application under uvicorn, on a thread with an event loop of its own."""

import asyncio
import socket
import threading

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from tidewheel.pubsub.gateway.errors import GatewayError

_STARTS_WITHIN_S = 30.0
_GRACE_S = 2
_STOPS_WITHIN_S = 5.0
_ASKS_WITHIN_S = 10.0
_LARGEST_MESSAGE = 64 * 1024


class _Http(H11Protocol):
    """Cuts off who connects and does not ask for anything."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(_ASKS_WITHIN_S, self._check_asked)

    def _check_asked(self) -> None:
        request: object = self.cycle
        is_socket = self.transport.get_protocol() is not self
        if request is None and not is_socket:
            self.transport.abort()


class _Server(uvicorn.Server):
    """Tells when it listens, and leaves no connection open. On a thread of its own it leaves signals alone."""

    def __init__(self, config: uvicorn.Config, listens: threading.Event) -> None:
        super().__init__(config)
        self._listens = listens

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listens.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # its client takes nothing, so it would wait for ever to send the rest
        await asyncio.sleep(0)  # the loop closes them in its next round


class WebServer:
    """HTTP and WebSockets at one socket.

    Nothing of a request is logged, since a query may have the token in it: uvicorn's loggers are silenced, in the whole
    process. What fails here is logged by `answers`.

    Args:
        app: what answers.
        listener: where, already listening; it is closed at the end.
        stall_s: how long a WebSocket may leave a ping unanswered, in seconds.
    """

    def __init__(self, app: ASGIApp, listener: socket.socket, stall_s: float) -> None:
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http=_Http,
            ws="websockets-sansio",
            ws_max_size=_LARGEST_MESSAGE,
            ws_ping_timeout=stall_s,
            ws_per_message_deflate=False,  # it would hold up all clients while one message is compressed
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        self._listens = threading.Event()
        self._server = _Server(config, self._listens)
        self._listener = listener
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tidewheel-gateway-http", daemon=True)

    def start(self) -> None:
        """Begin to answer; raises GatewayError if that does not work."""
        self._thread.start()
        if not self._listens.wait(_STARTS_WITHIN_S) or self._error is not None:
            self.stop()
            raise GatewayError(f"the web server did not start: {self._error or 'it hangs'}")

    def stop(self) -> None:
        """Stop listening, and end within seconds whatever is still under way."""
        self._server.should_exit = True
        self._thread.join(_STOPS_WITHIN_S)
        self._listener.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve([self._listener]))
        except BaseException as error:  # noqa: BLE001  it is raised by `start`
            self._error = error
        finally:
            self._listens.set()
