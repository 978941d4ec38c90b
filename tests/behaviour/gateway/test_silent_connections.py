"""Four hundred connections that ask for nothing, before a gateway whose process may have 256 descriptors."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self
from urllib.parse import urlsplit

import pytest

from tests.kit.gateway.served import ask, flights_of, options_of, path_of, read_event, requested
from tests.waiting import WITHIN_S, eventually

SILENT = 400
REQUESTS = 27

GATEWAY = """
import json, resource, sys
from tests.kit.gateway.served import published, served
from tests.kit.pubsub.local_job import send_epoch

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
with published("load/a") as running, served() as gateway:
    print(json.dumps({"url": gateway.url, "flight_url": gateway.flight_url, "token": gateway.token}), flush=True)
    for time, line in enumerate(sys.stdin):
        send_epoch(running, time, [line.strip()])
"""


@dataclass(frozen=True, slots=True)
class SmallGateway:
    """A gateway in a process with few descriptors, and what its clients need to know."""

    url: str
    flight_url: str
    token: str
    input: IO[bytes]

    def publish(self, record: str) -> None:
        """Let the process publish an epoch of one record."""
        self.input.write(f"{record}\n".encode())
        self.input.flush()


@contextmanager
def small_gateway(log: Path) -> Iterator[SmallGateway]:
    """Run the process; all that it logs goes into a file."""
    root = str(Path(__file__).resolve().parents[3])
    environment = {"PYTHONPATH": root, "RAY_ADDRESS": "127.0.0.1:1"}  # where no cluster is
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", GATEWAY]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, env=environment) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield SmallGateway(**json.loads(process.stdout.readline()), input=process.stdin)
            process.stdin.close()
            assert process.wait(WITHIN_S) == 0
        finally:
            process.kill()


class Flood:
    """Connections that send no request. One that the gateway closes is replaced by a new one."""

    def __init__(self, url: str, first_bytes: bytes) -> None:
        self._address = "127.0.0.1", urlsplit(url).port
        self._first_bytes = first_bytes
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.opened = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        connections: list[socket.socket] = []
        while not self._ended.is_set():
            connections = [each for each in connections if not self._is_closed(each)]
            while len(connections) < SILENT and not self._ended.is_set():
                connections.append(socket.create_connection(self._address, timeout=WITHIN_S))
                connections[-1].setblocking(False)
                with suppress(ConnectionError):
                    connections[-1].sendall(self._first_bytes)
                self.opened += 1
            self._ended.wait(0.01)
        for each in connections:
            each.close()

    @staticmethod
    def _is_closed(connection: socket.socket) -> bool:
        try:
            connection.recv(1000, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except ConnectionError:
            pass
        connection.close()
        return True


@pytest.mark.parametrize(
    ("port", "first_bytes"),
    [
        ("url", b""),
        pytest.param("url", b"GET /topics HTTP/1.1\r\nHost: ", marks=pytest.mark.long),
        pytest.param("flight_url", b"", marks=pytest.mark.long),
        pytest.param("flight_url", b"PRI * HTTP/2.0\r\n", marks=pytest.mark.long),
        ("flight_url", b"GET /topics HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ],
    ids=["http", "http-half", "flight", "flight-half", "flight-wrong"],
)
def test_every_request_with_a_token_succeeds(port: str, first_bytes: bytes, tmp_path: Path) -> None:
    """By both protocols, though the silent connections come back; a stream goes on, and nothing is logged."""
    log = tmp_path / "log"
    with small_gateway(log) as gateway, requested(gateway, path_of("load/a")) as events:
        with Flood(getattr(gateway, port), first_bytes) as flood:
            assert eventually(lambda: flood.opened >= SILENT)
            for _ in range(REQUESTS):
                assert ask(gateway, "/topics").status == 200
                with flights_of(gateway) as client:
                    assert len(list(client.list_flights(options=options_of(gateway.token)))) == 1
            gateway.publish("through the flood")
            assert read_event(events)["data"]["records"] == ["through the flood"]
            assert flood.opened > SILENT
        assert ask(gateway, "/topics").status == 200
    assert log.read_text() == ""
