"""A listener that forwards each connection to a Unix socket, in both directions.

gRPC's server accepts connections itself but cannot break them. The forwarder in front of it can break the connection of
a client that does not read. The kernel moves the bytes between sockets (``splice``).
"""

import errno
import fcntl
import os
import select
import socket
import threading
from contextlib import suppress

from tidewheel.gateway.descriptors import leaves_room, most_silent

_PIPE_BYTES = 1 << 20
_GREETS_WITHIN_S = 10.0
_RETRY_S = 0.05
_CLOSES_WITHIN_S = 1.0


class Forwarder:
    """Forwards connections, from its creation until `stop`.

    Each connection has a thread for each direction, and its sockets close when both have ended. A client has 10 s to
    send its greeting. If too many clients are silent, or too few file descriptors are free, the oldest connection
    without a greeting is closed.

    Args:
        greeting: the first bytes that every client sends before it waits for the server.
    """

    def __init__(self, listener: socket.socket, target: str, greeting: bytes, name: str) -> None:
        self._listener = listener
        self._target = target
        self._greeting = greeting
        self._name = name
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._connections: dict[threading.Thread, list[socket.socket]] = {}  # a silent one has no socket to the server
        self._accepting = threading.Thread(target=self._accept, name=f"{name}-accept", daemon=True)
        self._accepting.start()

    def close_listener(self) -> None:
        """Accept no more connections, but keep open ones; idempotent."""
        self._closed.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._accepting.join()
        self._listener.close()

    def stop(self) -> None:
        self.close_listener()
        with self._lock:
            threads = list(self._connections)
            for ends in self._connections.values():
                _cut(*ends)
        for thread in threads:
            thread.join()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:  # the client has left already, or no descriptor is free
                self._closed.wait(_RETRY_S)
                continue
            ends = [client]
            thread = threading.Thread(target=self._serve, args=(ends,), name=f"{self._name}-in", daemon=True)
            with self._lock:
                self._connections[thread] = ends
                silent = [(each, ends[0]) for each, ends in self._connections.items() if len(ends) == 1]
                cut = [each for each in silent[: -most_silent()] if not _sends(each[1], self._greeting)]
                for _, oldest in cut:
                    _cut(oldest)
            try:
                thread.start()
            except RuntimeError:  # no thread is free
                with self._lock:
                    del self._connections[thread]
                client.close()
                self._closed.wait(_RETRY_S)
            for closing, _ in cut:  # bounds the number of connections that are not yet closed
                closing.join(_CLOSES_WITHIN_S)

    def _serve(self, ends: list[socket.socket]) -> None:
        with suppress(OSError, RuntimeError):  # RuntimeError: no thread is free for the way back
            if _has_greeted(ends[0], self._greeting):
                self._forward(ends)
        with self._lock:
            del self._connections[threading.current_thread()]
            for end in ends:
                end.close()

    def _forward(self, ends: list[socket.socket]) -> None:
        client, server = ends[0], socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with self._lock:
            ends.append(server)
        if not leaves_room(server.fileno()):
            return
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server.connect(self._target)
        back = threading.Thread(target=_copy, args=(server, client), name=f"{self._name}-out", daemon=True)
        back.start()
        _copy(client, server)
        back.join()


def _sends(client: socket.socket, greeting: bytes) -> bool:
    poll = select.poll()
    poll.register(client, select.POLLIN)
    try:
        return bool(poll.poll(0)) and client.recv(len(greeting), socket.MSG_PEEK) == greeting
    except OSError:
        return False


def _has_greeted(client: socket.socket, greeting: bytes) -> bool:
    client.settimeout(_GREETS_WITHIN_S)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, len(greeting))  # fewer bytes do not wake the thread
    has_greeted = client.recv(len(greeting), socket.MSG_PEEK) == greeting
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    client.settimeout(None)
    return has_greeted


def _copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        _splice(source.fileno(), sink.fileno())
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        _cut(source, sink)


def _cut(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _splice(source: int, sink: int) -> None:
    read, write = os.pipe2(os.O_CLOEXEC)
    try:
        if not leaves_room(write):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        with suppress(PermissionError):  # the user has too many large pipes: this one stays small
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        while left := os.splice(source, write, _PIPE_BYTES):
            while left:
                left -= os.splice(read, sink, left)
    finally:
        os.close(read)
        os.close(write)
