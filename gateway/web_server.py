"""Runs the ASGI application under uvicorn, on a thread with its own event loop."""

import asyncio
import socket
import threading

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from tidewheel.gateway.descriptors import leaves_room, most_silent
from tidewheel.gateway.errors import GatewayError
from tidewheel.gateway.gateway_config import BACKLOG
from tidewheel.gateway.posting_request import MAX_BODY_BYTES

_STARTS_WITHIN_S = 30.0
_TOLD_WITHIN_S = 1.0
_GRACE_S = 2
_STOPS_WITHIN_S = 5.0
_ASKS_WITHIN_S = 10.0
_ACCEPTS_AT_ONCE = 4


class _Http(H11Protocol):
    """Closes the connections of clients that send no request in time, or for which there is no room."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(_ASKS_WITHIN_S, self._close_if_silent)
        silent = [each for each in self.connections if isinstance(each, _Http) and each._is_silent]
        if len(silent) > most_silent():
            min(silent, key=lambda each: each._deadline.when()).transport.abort()
        if not leaves_room(transport.get_extra_info("socket").fileno()):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    @property
    def _is_silent(self) -> bool:
        request: object = self.cycle
        return request is None and not self.transport.is_closing()

    def _close_if_silent(self) -> None:
        is_socket = self.transport.get_protocol() is not self
        if self._is_silent and not is_socket:
            self.transport.abort()


class _Server(uvicorn.Server):
    """Signals when it listens, and closes all connections when it ends.

    It handles no signals, since it does not run on the main thread.
    """

    def __init__(self, config: uvicorn.Config, listens: threading.Event) -> None:
        super().__init__(config)
        self._listens = listens

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)  # uvicorn has made it as short as the number that it accepts at once
        self._listens.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        if self.server_state.tasks:  # uvicorn would close a WebSocket before it learns the reason
            await asyncio.wait(set(self.server_state.tasks), timeout=_TOLD_WITHIN_S)
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # its client does not read, so sending the rest would wait for ever
        await asyncio.sleep(0)  # the loop closes them in its next round


class WebServer:
    """HTTP and WebSockets at one socket.

    The server logs no requests, since a query may have the token; it silences uvicorn's loggers in the whole process.

    Args:
        listener: a listening socket; the server closes it at the end.
        stall_s: the seconds after which it closes a WebSocket that does not answer a ping.
    """

    def __init__(self, app: ASGIApp, listener: socket.socket, stall_s: float) -> None:
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http=_Http,
            ws="websockets-sansio",
            ws_max_size=MAX_BODY_BYTES,
            ws_ping_timeout=stall_s,
            ws_per_message_deflate=False,  # compressing one message would delay all clients
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
            backlog=_ACCEPTS_AT_ONCE,  # silent connections then close before further ones use up the descriptors
        )
        self._listens = threading.Event()
        self._server = _Server(config, self._listens)
        self._listener = listener
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tidewheel-gateway-http", daemon=True)

    def start(self) -> None:
        """Begin to answer; raise GatewayError if the server does not start."""
        self._thread.start()
        if not self._listens.wait(_STARTS_WITHIN_S) or self._error is not None:
            raise GatewayError(f"the web server did not start: {self._error or 'it hangs'}")

    def stop(self) -> None:
        """Stop listening, and end all requests; this takes seconds."""
        self._server.should_exit = True
        if self._thread.ident is not None:  # it was started
            self._thread.join(_STOPS_WITHIN_S)
        self._listener.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve([self._listener]))
        except BaseException as error:  # noqa: BLE001  `start` raises it
            self._error = error
        finally:
            self._listens.set()
