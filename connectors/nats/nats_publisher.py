"""The publishing of messages in one order, each only behind the one before it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from tidewheel.connectors.nats.nats_connection import ApiError, NatsConnection

_UNACKNOWLEDGED: Final = 256


def publish(
    connection: NatsConnection, stream: str, last: int, messages: Sequence[tuple[str, bytes, Mapping[str, str]]]
) -> None:
    """Store messages, with their subject, data and headers, behind a sequence.

    The server stores each of them only if the one before is the last in the stream. So many of them may be under
    way: if one is lost or another writer is faster, all later ones are refused.
    """
    what = f"messages are not stored in stream {stream!r} at {connection.at}"
    connection.call(what, _publish(connection, stream, last, messages), None)


async def _publish(
    connection: NatsConnection, stream: str, last: int, messages: Sequence[tuple[str, bytes, Mapping[str, str]]]
) -> None:
    answered = 0
    errors: list[dict[str, Any]] = []

    async def receive(answer: Any) -> None:
        nonlocal answered
        answered += 1
        said = msgspec.json.decode(answer.data or b'{"error": {"code": 503}}')
        if "error" in said:
            errors.append(said["error"])
        connection.come.set()

    inbox = connection.client.new_inbox()
    await connection.client.subscribe(inbox, cb=receive)
    for number, (subject, data, headers) in enumerate(messages):
        least = number - _UNACKNOWLEDGED
        await connection.until(lambda least=least: errors or answered > least)
        if errors:
            break
        expected = {"Nats-Expected-Stream": stream, "Nats-Expected-Last-Sequence": str(last + number)}
        await connection.client.publish(subject, data, inbox, {**headers, **expected})
    await connection.until(lambda: errors or answered == len(messages))
    if errors:
        raise ApiError(errors[0])
