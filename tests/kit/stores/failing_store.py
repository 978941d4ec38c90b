"""An HTTP server in place of an object store that answers requests with an error, or never."""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FailingStore:
    """The server, while it runs.

    Args:
        status: of its answers; 0 for no answer.
        code: the code of the error in its text.
        times: how often it fails, before it accepts everything.
    """

    def __init__(self, status: int, code: str, times: float) -> None:
        self.requests = 0
        self._times = times
        self._stopped = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(status, code))
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """End all requests and the server."""
        self._stopped.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self, status: int, code: str) -> Callable[..., BaseHTTPRequestHandler]:
        store = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                store.requests += 1
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if not status:
                    store._stopped.wait(60)
                    self.close_connection = True
                    return
                has_failed = store.requests > store._times
                text = (
                    b""
                    if has_failed
                    else f"<Error><Code>{code}</Code><Message>as the test wants</Message></Error>".encode()
                )
                self.send_response(200 if has_failed else status)
                self.send_header("ETag", '"0"')
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815  the names that http.server calls

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        return Handler


@contextmanager
def failing_store(status: int, code: str = "", times: float = math.inf) -> Iterator[FailingStore]:
    """Start a store that fails so; end it."""
    store = FailingStore(status, code, times)
    try:
        yield store
    finally:
        store.close()
