"""Connections forwarded to a server at a Unix socket, and broken."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import WITHIN_S, eventually
from tidewheel.pubsub.gateway.forwarder import Forwarder

NAME = "tidewheel-forwarder-test"


def threads() -> list[str]:
    """The names of the forwarder's threads."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(NAME)]


class Forwarded:
    """A server at a Unix socket, and a forwarder before it."""

    def __init__(self, folder: Path) -> None:
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.server.bind(str(folder / "server"))
        self.server.listen()
        self.server.settimeout(WITHIN_S)
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.forwarder = Forwarder(listener, str(folder / "server"), NAME)

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """Connect a client, and return its socket and the one that the server has accepted."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=WITHIN_S)
        accepted, _ = self.server.accept()
        accepted.settimeout(WITHIN_S)
        return client, accepted


@pytest.fixture
def forwarded(tmp_path: Path) -> Iterator[Forwarded]:
    """Forward to a server; afterwards there is no thread left and no descriptor."""
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  it is no file that is looked for
    made = Forwarded(tmp_path)
    yield made
    made.forwarder.stop()
    made.server.close()
    assert not threads()
    assert eventually(lambda: len(os.listdir("/proc/self/fd")) <= before)  # noqa: PTH208


def test_bytes_arrive_both_ways_and_so_do_ends(forwarded: Forwarded) -> None:
    """Also more than a pipe holds; one direction may end before the other."""
    client, accepted = forwarded.connect()
    much = os.urandom(5_000_000)
    with client, accepted:

        def send() -> None:
            client.sendall(much)
            client.shutdown(socket.SHUT_WR)

        sending = threading.Thread(target=send)
        sending.start()
        with accepted.makefile("rb") as file:
            assert file.read() == much
        sending.join()
        accepted.sendall(b"answer")
        assert client.recv(100) == b"answer"
    assert eventually(lambda: len(threads()) == 1)  # the one that accepts


def test_stopping_breaks_a_connection_whose_client_reads_nothing(forwarded: Forwarded) -> None:
    """The server's write fails, though the client keeps its connection open."""
    client, accepted = forwarded.connect()
    failed = threading.Event()

    def write() -> None:
        try:
            accepted.sendall(bytes(100_000_000))
        except OSError:
            failed.set()

    with client, accepted:
        writing = threading.Thread(target=write)
        writing.start()
        assert client.recv(1)
        forwarded.forwarder.stop()
        writing.join(WITHIN_S)
        assert failed.is_set()


def test_closing_the_listener_leaves_open_connections_alone(forwarded: Forwarded) -> None:
    """New ones are refused."""
    client, accepted = forwarded.connect()
    with client, accepted:
        forwarded.forwarder.close_listener()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", forwarded.port), timeout=WITHIN_S)
        client.sendall(b"still there")
        assert accepted.recv(100) == b"still there"


def test_a_client_that_leaves_ends_the_connection_of_the_server(forwarded: Forwarded) -> None:
    """And a server that ends a connection ends that of the client."""
    client, accepted = forwarded.connect()
    with accepted:
        client.close()
        assert accepted.recv(1) == b""
    client, accepted = forwarded.connect()
    with client:
        accepted.close()
        assert client.recv(1) == b""


def test_without_a_server_a_connection_is_closed(tmp_path: Path) -> None:
    """The client hears of it at once."""
    listener = socket.create_server(("127.0.0.1", 0))
    forwarder = Forwarder(listener, str(tmp_path / "nothing"), NAME)
    with socket.create_connection(listener.getsockname(), timeout=WITHIN_S) as client:
        assert client.recv(1) == b""
    forwarder.stop()
    forwarder.stop()
    assert not threads()
