"""A consumer of a stream, which acknowledges nothing and asks for messages a batch at a time.

Between two batches nothing is under way. So the server never waits until the reader takes more, and does not cut it off
for being slow.

Source: ADR-13 of NATS, pull requests.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from tidewheel.connectors.nats.nats_connection import WITHIN_S, NatsConnection

_MOST_MESSAGES: Final = 1000
_MOST_BYTES: Final = 4 << 20
_DROPS_WITHIN_S: Final = 2.0
_FORGOTTEN_AFTER_S: Final = 300
"""The time after which the server drops a consumer that nothing reads."""


class NatsConsumer:
    """A consumer on a connection.

    Args:
        start: the sequence from which it reads.
        subject: the subject that it reads, also with wildcards; None for all.
    """

    def __init__(self, connection: NatsConnection, stream: str, start: int, subject: str | None) -> None:
        self._connection = connection
        self._taken: list[Any] = []
        self._status: list[Mapping[str, str]] = []
        self._most = 0
        self._inbox = self._name = self._reply = ""
        self._pulls = 0
        config: dict[str, Any] = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": start,
            "ack_policy": "none",
            "replay_policy": "instant",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _FORGOTTEN_AFTER_S * 1_000_000_000,
        }
        if subject is not None:
            config["filter_subject"] = subject
        connection.call(f"stream {stream!r} at {connection.at} cannot be read", self._begin(stream, config))

    def close(self) -> None:
        """Drop the consumer at the server, which would drop it later by itself."""
        with suppress(Exception):  # the connection may be lost
            self._connection.call("", self._connection.ask(f"CONSUMER.DELETE.{self._name}"), _DROPS_WITHIN_S)

    def take(self, wait_s: float) -> tuple[list[Any], bool]:
        """Return the next messages, or one for which it waits; also whether the stream had no other ones."""
        what = f"messages from {self._connection.at} do not come"
        return self._connection.call(what, self._take(wait_s), 2 * WITHIN_S)

    async def _begin(self, stream: str, config: dict[str, Any]) -> None:
        made = await self._connection.ask(f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
        self._name = f"{stream}.{made['name']}"
        self._inbox = self._connection.client.new_inbox()
        await self._connection.client.subscribe(f"{self._inbox}.*", cb=self._receive)

    async def _receive(self, message: Any) -> None:
        if message.reply:
            self._taken.append(message)
        elif message.subject == self._reply:  # and not late, about a request whose messages have all come
            self._status.append(message.headers or {})
        if self._status or len(self._taken) == self._most:
            self._connection.come.set()

    async def _take(self, wait_s: float) -> tuple[list[Any], bool]:
        most_bytes = max(_MOST_BYTES, 2 * self._connection.client.max_payload)
        is_last = await self._pull(_MOST_MESSAGES, {"no_wait": True, "max_bytes": most_bytes})
        if is_last and not self._taken and wait_s:
            await self._pull(1, {"expires": int(wait_s * 1_000_000_000)})
        return self._taken, is_last

    async def _pull(self, most: int, more: Mapping[str, Any]) -> bool:
        """Ask for messages until all have come or there are no more; return whether there are no more."""
        self._taken, self._status, self._most = [], [], most
        self._pulls += 1
        self._reply = f"{self._inbox}.{self._pulls}"
        request = msgspec.json.encode({"batch": most, **more})
        await self._connection.client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{self._name}", request, self._reply)
        await self._connection.until(lambda: self._status or len(self._taken) == most)
        if not self._status:
            return False
        status, said = self._status[0].get("Status"), self._status[0].get("Description", "")
        if status in {"404", "408"}:
            return True
        if "MaxBytes" in said or said == "Batch Completed":
            return False
        raise ConnectionError(f"the consumer has ended: {said} ({status})")
