"""A client's request: a topic, a filter of its records, and the form of the answer."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import msgspec

from tidewheel.gateway.errors import BadRequest
from tidewheel.gateway.record_filter import RecordFilter
from tidewheel.pubsub.errors import DeliveryError, UnknownTopic
from tidewheel.pubsub.subscribers.subscribing import subscribe
from tidewheel.pubsub.subscribers.subscription import Subscription
from tidewheel.pubsub.subscribers.topics import topics

Slow: TypeAlias = Literal["disconnect", "drop_epochs"]
"""The policy for a client that falls behind. A client of the gateway cannot hold back the dataflow."""

_SWITCH = {"true": True, "false": False}


class _Command(msgspec.Struct, forbid_unknown_fields=True):
    """A request in a Flight descriptor or ticket."""

    topic: str
    where: list[str] = []
    slow: Slow = "disconnect"


@dataclass(frozen=True, slots=True)
class TopicRequest:
    """A request for a topic.

    Args:
        whole: whether to send complete epochs instead of single batches.
    """

    topic: str
    where: RecordFilter | None = None
    whole: bool = True
    slow: Slow = "disconnect"

    @classmethod
    def from_query(cls, topic: str, parameters: Iterable[tuple[str, str]]) -> "TopicRequest":
        """Return the request in a URL.

        Raises:
            BadRequest: a parameter is unknown, repeated, or wrong.

        >>> TopicRequest.from_query("words", [("slow", "drop_epochs")])
        TopicRequest(topic='words', where=None, whole=True, slow='drop_epochs')
        """
        conditions: list[str] = []
        single: dict[str, str] = {}
        for name, value in parameters:
            if name == "where":
                conditions.append(value)
            elif name not in {"epochs", "slow"}:
                raise BadRequest(f"there is no parameter {name!r}, but where, epochs and slow")
            elif name in single:
                raise BadRequest(f"{name}= is there more than once")
            else:
                single[name] = value
        epochs, slow = single.get("epochs", "true"), single.get("slow", "disconnect")
        if epochs not in _SWITCH:
            raise BadRequest(f"epochs is true or false, not {epochs!r}")
        if slow not in get_args(Slow):
            raise BadRequest(f"slow is one of {', '.join(get_args(Slow))}, not {slow!r}")
        chosen: Slow = "drop_epochs" if slow == "drop_epochs" else "disconnect"
        return cls(topic, RecordFilter.parse(conditions), _SWITCH[epochs], chosen)

    @classmethod
    def from_command(cls, command: bytes) -> "TopicRequest":
        """Return the request in a Flight ticket, or in a descriptor's command.

        The request is a JSON object with ``topic``, and optionally ``where`` (a list) and ``slow``.

        Raises:
            BadRequest: the command is not such an object.

        >>> TopicRequest.from_command(b'{"topic": "words", "where": ["n>1"]}').topic
        'words'
        """
        try:
            found = msgspec.json.decode(command, type=_Command)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadRequest(
                f'a ticket is JSON such as {{"topic": "words", "where": ["n>1"]}}, and this one is not: {error}'
            ) from None
        return cls(found.topic, RecordFilter.parse(found.where), slow=found.slow)

    def command(self) -> bytes:
        return msgspec.json.encode({"topic": self.topic})

    def subscribe(self) -> Subscription:
        """Subscribe to the topic, which must exist; raise as `subscribe` does."""
        try:
            return subscribe(self.topic, timeout_s=0, where=self.where, slow=self.slow)
        except UnknownTopic as error:
            raise _unknown(self.topic, error.topics) from None
        except DeliveryError:
            check_exists(self.topic)  # without a cluster, this process may still have other topics
            raise


def check_exists(topic: str) -> None:
    """Raise UnknownTopic unless a job publishes the topic; raise DeliveryError if the catalog does not answer."""
    names = tuple(found.name for found in topics())
    if topic not in names:
        raise _unknown(topic, names)


def _unknown(topic: str, names: tuple[str, ...]) -> UnknownTopic:
    known = ", ".join(map(repr, names)) or "none"
    return UnknownTopic(f"nobody publishes topic {topic!r}; topics that exist: {known}", topic=topic, topics=names)
