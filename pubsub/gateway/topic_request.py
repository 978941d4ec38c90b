"""What a client asks for: a topic, which of its records, and in which form."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import msgspec

from tidewheel.pubsub import DeliveryError, Subscription, UnknownTopic, subscribe, topics
from tidewheel.pubsub.gateway.errors import BadRequest
from tidewheel.pubsub.gateway.record_filter import RecordFilter

Slow: TypeAlias = Literal["disconnect", "drop_epochs"]
"""What may be done with a client that falls behind; that it holds back the dataflow is not for outsiders to ask."""

_SWITCH = {"true": True, "false": False}


class _Command(msgspec.Struct, forbid_unknown_fields=True):
    """A request as a Flight descriptor or ticket has it."""

    topic: str
    where: list[str] = []
    slow: Slow = "disconnect"


@dataclass(frozen=True, slots=True)
class TopicRequest:
    """A request for a topic.

    Args:
        topic: its name.
        where: which records are wanted; None for all.
        whole: whether epochs come whole, each once it is complete, rather than batch by batch.
        slow: what happens if the client falls behind, as `subscribe` has it, but nothing that holds back others.
    """

    topic: str
    where: RecordFilter | None = None
    whole: bool = True
    slow: Slow = "disconnect"

    @classmethod
    def from_query(cls, topic: str, parameters: Iterable[tuple[str, str]]) -> "TopicRequest":
        """Return the request that a URL makes.

        Args:
            topic: from its path.
            parameters: from its query, in order: ``where``, any number of times, ``epochs`` and ``slow``.

        Raises:
            BadRequest: a parameter is unknown, there twice, or wrong.

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
        """Return the request that a Flight ticket, or the command of a descriptor, makes.

        Args:
            command: a JSON object with ``topic`` and, as wanted, ``where`` (a list) and ``slow``.

        Raises:
            BadRequest: it is something else.

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
        """Return the ticket that makes this request of a whole topic."""
        return msgspec.json.encode({"topic": self.topic})

    def subscribe(self) -> Subscription:
        """Connect to the topic, which has to exist; raises what `subscribe` raises."""
        try:
            return subscribe(self.topic, timeout=0, where=self.where, slow=self.slow)
        except UnknownTopic as error:
            raise _unknown(self.topic, error.topics) from None
        except DeliveryError:
            check_exists(self.topic)  # without a cluster there may still be topics of this process, others than this
            raise


def check_exists(topic: str) -> None:
    """Check that somebody publishes a topic.

    Raises:
        UnknownTopic: nobody does.
        DeliveryError: there is no Ray cluster, and no topic of this process, or the catalog does not answer.
    """
    names = tuple(found.name for found in topics())
    if topic not in names:
        raise _unknown(topic, names)


def _unknown(topic: str, names: tuple[str, ...]) -> UnknownTopic:
    known = ", ".join(map(repr, names)) or "none"
    return UnknownTopic(f"nobody publishes topic {topic!r}; topics that exist: {known}", topic=topic, topics=names)
