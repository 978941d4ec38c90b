"""The end of a web server: its WebSockets are told why before they close."""

import asyncio
import socket
import threading

from websockets.sync.client import connect

from tests.waiting import WITHIN_S
from tidewheel.gateway.web_server import WebServer


def test_what_a_web_socket_says_last_is_sent() -> None:
    """Also if the application learns of the end later than the server."""
    listener = socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()

    async def say_goodbye(scope: object, receive: object, send: object) -> None:
        assert callable(send)
        await send({"type": "websocket.accept"})
        while server._server.servers[0].is_serving():  # noqa: ASYNC110  nothing tells of its end
            await asyncio.sleep(0.01)
        await send({"type": "websocket.send", "text": "goodbye"})
        await send({"type": "websocket.close", "code": 1001})

    server = WebServer(say_goodbye, listener, stall_s=WITHIN_S)
    server.start()
    with connect(f"ws://{host}:{port}") as client:
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        assert client.recv(WITHIN_S) == "goodbye"
        stopping.join(WITHIN_S)
        assert not stopping.is_alive()
