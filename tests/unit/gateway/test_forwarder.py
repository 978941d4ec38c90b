"""Connections forwarded to a server at a Unix socket, and broken."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.waiting import WITHIN_S, eventually
from tidewheel.gateway import forwarder as forwarding
from tidewheel.gateway.forwarder import Forwarder

NAME = "tidewheel-forwarder-test"
GREETING = b"hello"


def threads() -> list[str]:
    """The names of the forwarder's threads."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(NAME)]


def is_cut_off(client: socket.socket) -> bool:
    """Wait for the end of a connection; what the forwarder has not read makes it a reset."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


class Forwarded:
    """A server at a Unix socket, and a forwarder before it."""

    def __init__(self, folder: Path) -> None:
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.server.bind(str(folder / "server"))
        self.server.listen()
        self.server.settimeout(WITHIN_S)
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.forwarder = Forwarder(listener, str(folder / "server"), GREETING, NAME)

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """Connect a client that greets, and return its socket and the one that the server has accepted."""
        client = self.connect_silently()
        client.sendall(GREETING)
        accepted, _ = self.server.accept()
        accepted.settimeout(WITHIN_S)
        assert accepted.recv(len(GREETING)) == GREETING
        return client, accepted

    def connect_silently(self) -> socket.socket:
        """Connect a client, of which the server hears nothing yet."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=WITHIN_S)


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
    forwarder = Forwarder(listener, str(tmp_path / "nothing"), GREETING, NAME)
    with socket.create_connection(listener.getsockname(), timeout=WITHIN_S) as client:
        client.sendall(GREETING)
        assert is_cut_off(client)
    forwarder.stop()
    forwarder.stop()
    assert not threads()


def test_the_server_sees_a_client_once_it_has_greeted(forwarded: Forwarded) -> None:
    """Part of the greeting is not enough; other bytes end the connection."""
    with forwarded.connect_silently() as other, forwarded.connect_silently() as client:
        other.sendall(b"HELLO")
        assert is_cut_off(other)
        client.sendall(GREETING[:2])
        client.sendall(GREETING[2:] + b"!")
        accepted, _ = forwarded.server.accept()
        with accepted:
            assert accepted.recv(100) == GREETING + b"!"
            client.sendall(b"?")  # fewer bytes than a greeting has pass, too
            assert accepted.recv(100) == b"?"


def test_the_oldest_silent_client_gives_way(forwarded: Forwarded, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others stay, and a client that has greeted is not silent."""
    monkeypatch.setattr("tidewheel.gateway.forwarder.most_silent", lambda: 2)
    client, accepted = forwarded.connect()
    with ExitStack() as stack:
        stack.enter_context(client)
        stack.enter_context(accepted)
        oldest, older, newest = (stack.enter_context(forwarded.connect_silently()) for _ in range(3))
        assert is_cut_off(oldest)
        for each in (older, newest):
            each.sendall(GREETING)
            stack.enter_context(forwarded.server.accept()[0])
        client.sendall(b"still there")
        assert accepted.recv(100) == b"still there"


def test_a_client_whose_greeting_has_arrived_does_not_give_way(
    forwarded: Forwarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though its thread has not looked for the greeting when too many others have come."""
    may_look = threading.Event()
    has_greeted = forwarding._has_greeted

    def look_late(client: socket.socket, greeting: bytes) -> bool:
        return may_look.wait(WITHIN_S) and has_greeted(client, greeting)

    monkeypatch.setattr(forwarding, "most_silent", lambda: 2)
    monkeypatch.setattr(forwarding, "_has_greeted", look_late)
    with ExitStack() as clients:
        greeting = clients.enter_context(forwarded.connect_silently())
        greeting.sendall(GREETING)
        silent = [clients.enter_context(forwarded.connect_silently()) for _ in range(3)]
        assert is_cut_off(silent[0])
        may_look.set()
        accepted, _ = forwarded.server.accept()
        with accepted:
            accepted.sendall(b"answer")
            assert greeting.recv(6) == b"answer"


def test_a_client_that_stays_silent_is_disconnected(forwarded: Forwarded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when no other client comes."""
    monkeypatch.setattr("tidewheel.gateway.forwarder._GREETS_WITHIN_S", 0.05)
    with forwarded.connect_silently() as client:
        assert is_cut_off(client)


def test_a_client_for_which_there_is_no_room_is_disconnected(
    forwarded: Forwarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server does not see it; the forwarder goes on."""
    with monkeypatch.context() as scarce, forwarded.connect_silently() as client:
        scarce.setattr("tidewheel.gateway.forwarder.leaves_room", lambda newest: False)
        client.sendall(GREETING)
        assert is_cut_off(client)
    for end in forwarded.connect():
        end.close()


@pytest.mark.parametrize("way", ["in", "out"])
def test_a_client_for_which_there_is_no_thread_is_disconnected(
    forwarded: Forwarded, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The forwarder serves those that come later."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.endswith(f"-{way}"):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as scarce:
        scarce.setattr(threading.Thread, "start", refuse)  # before the forwarder accepts the client
        client = forwarded.connect_silently()
        client.sendall(GREETING)
        if way == "out":
            forwarded.server.accept()[0].close()
        assert is_cut_off(client)
        client.close()
    for end in forwarded.connect():
        end.close()
