"""The messages about a topic to a browser: one for each epoch (or batch), and one for each other event."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tidewheel.gateway.clients import MAX_EPOCH_BYTES, assembled
from tidewheel.gateway.json_form import encode_json
from tidewheel.progress import TidewheelError, TimeDomain
from tidewheel.pubsub.messages.events import Batch, Dropped, End, Epoch, Event, Frontier, RolledBack, SubstreamsEnded

Kind: TypeAlias = Literal["epoch", "batch", "ended", "frontier", "dropped", "rolled_back", "end", "error"]

END_ID = "end"
"""The id of the event that ends a topic: a client that reconnects with it has received everything."""


@dataclass(frozen=True, slots=True)
class LiveMessage:
    """One message to a browser.

    Args:
        kind: the kind of event; ``"end"`` and ``"error"`` come last.
        content: for an epoch or batch, ``time`` and ``records``; for ``ended`` substreams, their keys, with an epoch or
            alone with their ``time``; for a move of the frontier, the ``frontier``; for dropped epochs, their
            ``times``; for an error, its ``message``. A batch, and ends alone, also have ``partition`` and ``number``.
            ``rolled_back`` has the ``partition`` and ``number`` of the last valid message, and the ``frontier``.
    """

    kind: Kind
    content: dict[str, Any] = field(default_factory=dict)

    def as_event(self) -> bytes:
        r"""Return one Server-Sent Event; the id of an epoch's event is its time. Raise as `encode_json` does.

        >>> LiveMessage("epoch", {"time": 3, "records": ["a"]}).as_event()
        b'event: epoch\nid: 3\ndata: {"time":3,"records":["a"]}\n\n'
        """
        identity = b""
        if self.kind == "epoch":
            identity = b"id: %b\n" % encode_json(self.content["time"])
        elif self.kind == "end":
            identity = b"id: %b\n" % END_ID.encode()
        return b"event: %b\n%bdata: %b\n\n" % (self.kind.encode(), identity, encode_json(self.content))

    def as_object(self) -> bytes:
        """Return one JSON object with the kind as ``type``; raise as `encode_json` does.

        >>> LiveMessage("epoch", {"time": 3, "records": ["a"]}).as_object()
        b'{"type":"epoch","time":3,"records":["a"]}'
        """
        return encode_json({"type": self.kind, **self.content})


def error_message(error: object) -> LiveMessage:
    return LiveMessage("error", {"message": str(error)})


def live_messages(
    domain: TimeDomain, events: Iterator[Event], max_epoch_bytes: int = MAX_EPOCH_BYTES, *, whole: bool = True
) -> Iterator[LiveMessage]:
    """Yield the messages for a topic's events; an error is the last message."""
    try:
        if whole:
            for item in assembled(domain, events, max_epoch_bytes):
                if not isinstance(item, Frontier):
                    yield _told(item)
        else:
            yield from map(_told, events)
    except TidewheelError as error:
        yield error_message(error)


def _told(item: Epoch | Event) -> LiveMessage:
    match item:
        case Epoch():
            ended = {"ended": item.ended} if item.ends else {}
            return LiveMessage("epoch", {"time": item.time, "records": item.records, **ended})
        case Batch():
            return LiveMessage("batch", {"time": item.time, "records": item.records, **_place(item)})
        case SubstreamsEnded():
            return LiveMessage("ended", {"time": item.time, "ended": item.keys, **_place(item)})
        case Frontier():
            return LiveMessage("frontier", {"frontier": list(item.frontier)})
        case Dropped():
            return LiveMessage("dropped", {"times": list(item.times)})
        case RolledBack():
            return LiveMessage("rolled_back", {**_place(item), "frontier": list(item.frontier)})
        case End():
            return LiveMessage("end")


def _place(item: Batch | SubstreamsEnded | RolledBack) -> dict[str, Any]:
    return {"partition": item.partition, "number": item.number}


def encoded(messages: Iterator[LiveMessage], *, as_events: bool) -> Iterator[bytes]:
    """Yield messages as bytes; a message without a JSON form becomes an error, which is the last message."""
    form = LiveMessage.as_event if as_events else LiveMessage.as_object
    for message in messages:
        try:
            yield form(message)
        except TidewheelError as error:
            what = f"the {message.kind} of time {message.content.get('time')!r}"
            yield form(error_message(f"{what}: {error}; map what is published to plain values"))
            return
