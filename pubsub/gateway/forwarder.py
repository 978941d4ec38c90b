"""A listener that forwards each connection to a Unix socket, both ways.

It stands before a server that accepts connections by itself and cannot break them, such as gRPC's. The forwarder has
the clients' sockets, so it can break a connection whose client reads nothing. The kernel moves the bytes from socket to
socket (``splice``): they do not pass through Python, and the threads hold no lock of the interpreter.
"""

import fcntl
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

_PIPE_BYTES = 1 << 20


class Forwarder:
    """Forwards connections from its start to `stop`.

    Args:
        listener: the socket that listens; the forwarder closes it.
        target: the path of the Unix socket of the server.
        name: how the names of its threads begin.
    """

    def __init__(self, listener: socket.socket, target: str, name: str) -> None:
        self._listener = listener
        self._target = target
        self._name = name
        self._lock = threading.Lock()
        self._is_closed = False
        self._connections: set[_Connection] = set()
        self._accepting = threading.Thread(target=self._accept, name=f"{name}-accept", daemon=True)
        self._accepting.start()

    def close_listener(self) -> None:
        """Accept no further connections; those that are open stay open. Called again, it does nothing."""
        with self._lock:
            self._is_closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._accepting.join()
        self._listener.close()

    def stop(self) -> None:
        """Break all connections, and wait for the threads to end."""
        self.close_listener()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.cut()
        for connection in connections:
            connection.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except ConnectionError:
                continue  # the client has left before it was accepted
            except OSError:
                if self._is_closed:
                    return
                raise
            self._forward(client)

    def _forward(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.connect(self._target)
        except OSError:
            client.close()
            server.close()
            return
        connection = _Connection(client, server, self._name, self._forget)
        with self._lock:
            self._connections.add(connection)
        connection.start()

    def _forget(self, connection: "_Connection") -> None:
        with self._lock:
            self._connections.discard(connection)


class _Connection:
    """One client's connection and the server's, with a thread for each direction.

    Args:
        client: the socket of the client.
        server: the socket of the server.
        name: how the names of the threads begin.
        ended: called with the connection when both directions have ended and the sockets are closed.
    """

    def __init__(
        self, client: socket.socket, server: socket.socket, name: str, ended: "Callable[[_Connection], None]"
    ) -> None:
        self._ends = (client, server)
        self._ended = ended
        self._lock = threading.Lock()
        self._running = 2
        self._threads = [
            threading.Thread(target=self._copy, args=(source, sink), name=f"{name}-{direction}", daemon=True)
            for direction, source, sink in (("in", client, server), ("out", server, client))
        ]

    def start(self) -> None:
        """Begin to forward."""
        for thread in self._threads:
            thread.start()

    def cut(self) -> None:
        """Break the connection; what is on its way is lost."""
        with self._lock:
            if not self._running:
                return  # the sockets are closed
            for end in self._ends:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def join(self) -> None:
        """Wait until both directions have ended."""
        for thread in self._threads:
            thread.join()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            _splice(source.fileno(), sink.fileno())
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            self.cut()  # one end is gone, so that the other has to hear of it
        with self._lock:
            self._running -= 1
            is_last = not self._running
            if is_last:
                for end in self._ends:
                    end.close()
        if is_last:
            self._ended(self)


def _splice(source: int, sink: int) -> None:
    """Move bytes from one socket to another until the first one ends."""
    read, write = os.pipe2(os.O_CLOEXEC)
    try:
        with suppress(PermissionError):  # the user has too many large pipes: this one stays small
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        while left := os.splice(source, write, _PIPE_BYTES):
            while left:
                left -= os.splice(read, sink, left)
    finally:
        os.close(read)
        os.close(write)
