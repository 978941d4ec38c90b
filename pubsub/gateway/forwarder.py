"""A listener that forwards each connection to a Unix socket, both ways.

It stands before a server that accepts connections by itself and cannot break them, such as gRPC's. The forwarder has
the clients' sockets, so it can break a connection whose client reads nothing. The kernel moves the bytes from socket to
socket (``splice``): they do not pass through Python, and the threads hold no lock of the interpreter.
"""

import fcntl
import os
import socket
import threading
from contextlib import suppress

_PIPE_BYTES = 1 << 20


class Forwarder:
    """Forwards connections from its start to `stop`.

    Each connection has two threads, one for each direction. Its sockets stay open until both have ended.

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
        self._connections: dict[threading.Thread, tuple[socket.socket, socket.socket]] = {}
        self._accepting = threading.Thread(target=self._accept, name=f"{name}-accept", daemon=True)
        self._accepting.start()

    def close_listener(self) -> None:
        """Accept no further connections; those that are open stay open. Called again, it does nothing."""
        self._is_closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._accepting.join()
        self._listener.close()

    def stop(self) -> None:
        """Break all connections, and wait for the threads to end."""
        self.close_listener()
        with self._lock:
            threads = list(self._connections)
            for ends in self._connections.values():
                _cut(*ends)
        for thread in threads:
            thread.join()

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
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                server.connect(self._target)
            except OSError:
                client.close()
                server.close()
                continue
            ends = client, server
            thread = threading.Thread(target=self._forward, args=ends, name=f"{self._name}-in", daemon=True)
            with self._lock:
                self._connections[thread] = ends
            thread.start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        back = threading.Thread(target=_copy, args=(server, client), name=f"{self._name}-out", daemon=True)
        back.start()
        _copy(client, server)
        back.join()
        with self._lock:
            del self._connections[threading.current_thread()]
            client.close()
            server.close()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    """Move bytes until the source ends, and end the sink; if one of them breaks, break the other."""
    try:
        _splice(source.fileno(), sink.fileno())
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        _cut(source, sink)


def _cut(*ends: socket.socket) -> None:
    """Break a connection; what is on its way is lost."""
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


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
