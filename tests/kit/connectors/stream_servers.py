"""Servers of Redis and of NATS on this machine for tests, each in a folder of its own."""

import asyncio
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests.waiting import eventually

PASSWORD = "sea-horse"
"""The password of user `guarded`; without a user, none is needed."""

_NUMBERS = count(1)
_REDIS = """
port 0
unixsocket {folder}/socket
dir {folder}
save ""
hz 500
appendonly yes
appendfsync no
user default on nopass ~* &* +@all
user guarded on >{password} ~* &* +@all
user blind on >{password} ~* &* +@all -xrange
user reader on >{password} ~tides* +multi +exec +xrange +xread +xinfo|stream
user writer on >{password} ~tides* +watch +unwatch +multi +exec +xadd +xrange +xinfo|stream
"""
_NATS = """
listen: 127.0.0.1:{port}
jetstream {{ store_dir: "{folder}", max_memory_store: 64MB, max_file_store: 1GB }}
no_auth_user: anyone
authorization {{ users: [
  {{ user: anyone, password: none }}
  {{ user: guarded, password: "{password}" }}
  {{ user: blind, password: "{password}", permissions: {{ publish: {{ deny: "$JS.API.STREAM.INFO.>" }} }} }}
] }}
"""


@dataclass(slots=True)
class StreamServer:
    """A server, which keeps what it has across `stop` and `start`.

    Attributes:
        url: the address for clients, without a user.
    """

    url: str
    command: list[str]
    listens: str | tuple[str, int]
    log: Path
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        assert eventually(self._accepts), self.log.read_text()

    def stop(self) -> None:
        """Stop it, as a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(30)

    def _accepts(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        family = socket.AF_UNIX if isinstance(self.listens, str) else socket.AF_INET
        with socket.socket(family) as connection:
            return connection.connect_ex(self.listens) == 0


def program(name: str) -> str | None:
    """Return where a server's program is, also in folders where only root looks; None if it is not installed."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


@contextmanager
def redis_server(binary: str) -> Iterator[StreamServer]:
    """Run a server of Redis for a block."""
    with _folder() as folder:
        settings = folder / "redis.conf"
        settings.write_text(_REDIS.format(folder=folder, password=PASSWORD))
        socket_file = str(folder / "socket")
        yield from _running(StreamServer(f"unix://{socket_file}", [binary, str(settings)], socket_file, folder / "log"))


@contextmanager
def nats_server(binary: str) -> Iterator[StreamServer]:
    """Run a server of NATS with JetStream for a block."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with _folder() as folder:
        settings = folder / "nats.conf"
        settings.write_text(_NATS.format(folder=folder, port=port, password=PASSWORD))
        address = ("127.0.0.1", port)
        url = f"nats://127.0.0.1:{port}"
        yield from _running(StreamServer(url, [binary, "-c", str(settings)], address, folder / "log"))


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tw-streams-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _running(server: StreamServer) -> Iterator[StreamServer]:
    try:
        server.start()
        yield server
    finally:
        server.stop()


def new_name() -> str:
    """Return a name that no stream has."""
    return f"tides_{next(_NUMBERS)}"


def on_nats(server: StreamServer, act: Callable[[Any], Awaitable[Any]]) -> Any:
    """Do something with JetStream of a server, and return what it returns."""
    import nats

    async def connected() -> Any:
        client = await nats.connect(server.url, allow_reconnect=False)
        try:
            return await act(client.jetstream())
        finally:
            await client.close()

    return asyncio.run(connected())


def new_nats_stream(server: StreamServer, *values: bytes, **settings: Any) -> str:
    """Make a stream of all subjects that begin with its name, with messages of subject ``<name>.a``."""
    name = new_name()

    async def make(jetstream: Any) -> None:
        await jetstream.add_stream(name=name, subjects=[f"{name}.>"], **settings)
        for value in values:
            await jetstream.publish(f"{name}.a", value)

    on_nats(server, make)
    return name


def send_nats(server: StreamServer, subject: str, *values: bytes) -> None:
    """Publish messages to a stream."""

    async def send(jetstream: Any) -> None:
        for value in values:
            await jetstream.publish(subject, value)

    on_nats(server, send)
