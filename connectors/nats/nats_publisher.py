"""The publishing of messages in one order, each only behind the one before it."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from tidewheel.connectors.nats.errors import NatsError
from tidewheel.connectors.nats.nats_connection import ApiError, NatsConnection

_UNACKNOWLEDGED: Final = 256
_ATTEMPT: Final = 16
_ADDED: Final = 192
"""The bytes of the headers that each message gets here, at most, beside the name of the stream."""


def publish(
    connection: NatsConnection, stream: str, last: int, messages: Sequence[tuple[str, bytes, Mapping[str, str]]]
) -> None:
    """Store messages, with their subject, data and headers, behind a sequence.

    The server stores each of them only if the one before is the last in the stream. So many of them may be under
    way: if one is lost or another writer is faster, all later ones are refused. The sequence alone does not do: behind
    the first message of one writer, it would let in the second one of another.
    """
    what = f"messages are not stored in stream {stream!r} at {connection.at}"
    most = connection.client.max_payload - _ADDED - len(stream)
    if large := [size for size in map(_size, messages) if size > most]:
        raise NatsError(
            f"{what}: a message has {large[0]} bytes with its headers, and the max_payload of the server is "
            f"{connection.client.max_payload}, some of which the sink needs. Divide it, or let the server accept more"
        )
    if not connection.call(what, _publish(connection, stream, last, messages), None):
        for subject in {subject for subject, _, _ in messages}:
            connection.stream_of(subject)
        raise ConnectionError(f"{what}: the stream does not answer")


def _size(message: tuple[str, bytes, Mapping[str, str]]) -> int:
    _, data, headers = message
    return len(data) + sum(len(name.encode()) + len(text.encode()) + 4 for name, text in headers.items())


async def _publish(
    connection: NatsConnection, stream: str, last: int, messages: Sequence[tuple[str, bytes, Mapping[str, str]]]
) -> bool:
    """Return whether all were sent to a stream; raise ApiError if one of them is not stored."""
    answered = 0
    errors: list[dict[str, Any]] = []

    async def receive(answer: Any) -> None:
        nonlocal answered
        answered += 1
        try:
            said = msgspec.json.decode(answer.data, type=dict[str, Any])
        except msgspec.DecodeError:
            said = {}  # no stream has the subject, or another program answers
        if "error" in said or said.get("stream") != stream:
            errors.append(said.get("error", {}))
        connection.come.set()

    def are_answered(count: int) -> bool:
        return bool(errors) or answered >= count

    inbox = connection.client.new_inbox()
    attempt = inbox[-_ATTEMPT:]
    await connection.client.subscribe(inbox, cb=receive)
    for number, (subject, data, headers) in enumerate(messages):
        await connection.until(partial(are_answered, number - _UNACKNOWLEDGED + 1))
        if errors:
            break
        expected = {"Nats-Expected-Stream": stream, "Nats-Expected-Last-Sequence": str(last + number)}
        expected["Nats-Msg-Id"] = f"{attempt}-{number}"
        if number:
            expected["Nats-Expected-Last-Msg-Id"] = f"{attempt}-{number - 1}"
        await connection.client.publish(subject, data, inbox, {**headers, **expected})
    await connection.until(partial(are_answered, len(messages)))
    if errors and errors[0]:
        raise ApiError(errors[0])
    return not errors
