"""A connection to NATS for code that is not asynchronous: its event loop has a thread of its own.

The loop also runs between two calls, so the client answers the server's pings while its owner is busy. A lost
connection is an error. The library would reconnect by itself, and nothing would tell what was lost meanwhile.

Source: ADR-1 of NATS, the JSON API of JetStream.
"""

import asyncio
import re
import threading
from base64 import b64decode
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from ssl import SSLError
from typing import Any, Final, TypeVar

import msgspec

from tidewheel.connectors.nats.errors import NatsError
from tidewheel.connectors.nats.nats_servers import NatsServers
from tidewheel.progress.redaction import redacted

T = TypeVar("T")

WITHIN_S: Final = 10.0
_ENDS_WITHIN_S: Final = 5.0
_WRONG_LAST: Final = {10070, 10071}
"""The last message has another id or sequence."""
_REFUSED: Final = re.compile(r"authorization|authentication|permissions violation|secure connection", re.IGNORECASE)
_LIMITS: Final = ". The source acknowledges nothing, so it needs a stream with retention by limits"
_REMEDIES: Final = {10059: ". Create the stream, or correct its name", 10084: _LIMITS, 10098: _LIMITS}
_REMEDY: Final = "Check the user, password, token or credentials in config, and what the server permits to that user"


@dataclass(frozen=True, slots=True)
class StreamState:
    """The state of a stream: the sequences of its first and last message, their number, and when it was made."""

    first: int
    last: int
    messages: int
    created: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A message in a stream, with its headers in their order."""

    sequence: int
    subject: str
    headers: tuple[tuple[str, str], ...]
    data: bytes


class NatsConnection:
    """A connection for one thread. A call raises ConnectionError if another attempt may succeed, else `NatsError`.

    Do not use it after an error.

    Attributes:
        client: the client of the library, for coroutines that `call` runs.
        come: set when an answer has come that `until` waits for.
    """

    def __init__(self, servers: NatsServers) -> None:
        self.at = servers.servers
        self.client: Any = _client()
        self.come = asyncio.Event()
        self._trouble: Exception | None = None
        self._work: asyncio.Task[Any] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tidewheel-nats", daemon=True)
        self._thread.start()
        try:
            self.call(f"no connection to {self.at}", self._connect(servers.settings()))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Disconnect, and end the thread."""
        if self._loop.is_closed():
            return
        with suppress(Exception):  # the thread ends in any case
            self.call("", self._disconnect(), _ENDS_WITHIN_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_ENDS_WITHIN_S)
        if not self._thread.is_alive():
            self._loop.close()

    # ------------------------------------------------------------------ streams

    def stream_of(self, subject: str) -> str:
        """Return the name of the stream that stores a subject; raise NatsError if none does."""
        what = f"the stream of subject {subject!r} at {self.at} cannot be looked up"
        found = self.call(what, self.ask("STREAM.NAMES", {"subject": subject}))["streams"]
        if not found:
            raise NatsError(f"no stream at {self.at} stores the subject {subject!r}. Create one, or correct it")
        return str(found[0])

    def state(self, stream: str) -> StreamState:
        what = f"stream {stream!r} at {self.at} cannot be looked up"
        found = self.call(what, self.ask(f"STREAM.INFO.{stream}"))
        state = found["state"]
        return StreamState(state["first_seq"], state["last_seq"], state["messages"], found["created"])

    def message(self, stream: str, sequence: int | None) -> Stored:
        """Return the message with a sequence, or the last one."""
        what = f"message {sequence or 'last'} of stream {stream!r} at {self.at} cannot be read"
        wanted = {"last_by_subj": ">"} if sequence is None else {"seq": sequence}
        found = self.call(what, self.ask(f"STREAM.MSG.GET.{stream}", wanted))["message"]
        lines = b64decode(found.get("hdrs", "")).decode(errors="replace").split("\r\n")[1:]
        headers = tuple((name, text.strip()) for name, colon, text in (one.partition(":") for one in lines) if colon)
        return Stored(found["seq"], found["subject"], headers, b64decode(found.get("data", "")))

    # ------------------------------------------------------------------ the event loop

    async def _disconnect(self) -> None:
        with suppress(Exception):  # the connection may be lost, or was never there
            await self.client.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def call(self, what: str, work: Coroutine[Any, Any, T], within_s: float | None = WITHIN_S) -> T:
        """Run a coroutine on the loop, and wait for it; ``what`` is the beginning of messages of errors."""

        async def in_time() -> T:
            self._work = asyncio.current_task()
            async with asyncio.timeout(within_s):
                return await work

        try:
            return asyncio.run_coroutine_threadsafe(in_time(), self._loop).result()
        except Exception as error:  # noqa: BLE001 - it is raised in other words
            raise self._failure(error, what) from None

    async def ask(self, what: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Make a call of JetStream's API."""
        data = b"" if body is None else msgspec.json.encode(body)
        answer = await self.client.request(f"$JS.API.{what}", data, timeout=WITHIN_S)
        found: dict[str, Any] = msgspec.json.decode(answer.data)
        if "error" in found:
            raise ApiError(found["error"])
        return found

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition, which another answer may make true; each has to come in time."""
        from nats.errors import ConnectionClosedError

        while not condition():
            if self.client.is_closed:
                raise ConnectionClosedError
            self.come.clear()
            async with asyncio.timeout(WITHIN_S):
                await self.come.wait()

    async def _connect(self, settings: dict[str, Any]) -> None:
        async def note(error: Exception) -> None:
            self._trouble = error
            if self._work is not None and _REFUSED.search(str(error)):
                self._work.cancel()  # no answer would come

        async def end() -> None:
            self.come.set()

        await self.client.connect(
            [one.strip() for one in self.at.split(",")],
            **settings,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            error_cb=note,
            closed_cb=end,
        )

    def _failure(self, error: Exception, what: str) -> Exception:
        from nats.errors import Error, NoRespondersError, NoServersError

        if isinstance(error, NoServersError | TimeoutError | CancelledError) and self._trouble is not None:
            error = self._trouble
        text = "no answer in time" if isinstance(error, TimeoutError) else redacted(str(error)) or type(error).__name__
        said = f"{what}: {text}"
        if isinstance(error, SSLError) or _REFUSED.search(text):
            return NatsError(f"{said}. {_REMEDY}")
        if isinstance(error, NoRespondersError):
            return ConnectionError(f"{said}. Is JetStream enabled there, as by nats-server -js?")
        if isinstance(error, ApiError) and not error.passes:
            return NatsError(f"{said}{error.remedy}")
        if isinstance(error, Error | OSError | ApiError):
            return ConnectionError(said)
        return NatsError(said)


def _client() -> Any:
    """Return a client that sends no password in clear where TLS is wanted; the library leaves that to the server.

    Nor does it end at a message whose headers are no headers, which any publisher may send.
    """
    from nats.aio.client import Client
    from nats.errors import SecureConnRequiredError

    class Guarded(Client):
        def _connect_command(self) -> bytes:
            assert self._current_server is not None
            wants_tls = "tls" in self.options or self._current_server.uri.scheme == "tls"
            if wants_tls and not self._server_info.get("tls_required"):
                raise SecureConnRequiredError
            return bytes(super()._connect_command())

        async def _process_headers(self, headers: Any) -> Any:
            try:
                return await super()._process_headers(headers)
            except (IndexError, UnicodeDecodeError):
                return None

    return Guarded()


class ApiError(Exception):
    """An error in an answer of JetStream."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self._code = said.get("err_code", 0)
        self.passes = said.get("code", 0) >= 500 or self._code in _WRONG_LAST
        super().__init__(f"{said.get('description')} ({self._code})")

    @property
    def remedy(self) -> str:
        return _REMEDIES.get(self._code, "")
