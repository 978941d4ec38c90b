"""A schema registry in this process: it keeps what is registered, and gives it back by number."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def schema_registry(password: str | None = None) -> Iterator[tuple[str, list[Any]]]:
    """Serve a registry; yield its URL and the list of its schemas.

    Args:
        password: what a client has to show, as ``user:password`` in Base64; None for nothing.
    """
    schemas: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if asked not in schemas:
                schemas.append(asked)
            self._answer({"id": schemas.index(asked) + 1, "version": 1, "subject": self.path.split("/")[2], **asked})

        def do_GET(self) -> None:
            number = self.path.partition("?")[0].rpartition("/")[2]
            if self.path.startswith("/schemas/ids/") and number.isdecimal():
                self._answer(schemas[int(number) - 1])
            else:
                self._answer({"error_code": 40401, "message": "there is none"}, status=404)

        def _answer(self, answer: Any, status: int = 200) -> None:
            if password is not None and self.headers.get("Authorization") != f"Basic {password}":
                answer, status = {"error_code": 401, "message": "who are you?"}, 401
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", schemas
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
