"""The place of a topic's log, and the time for which it keeps messages for subscriptions without a reader."""

import os
import re
from dataclasses import dataclass
from hashlib import sha256
from reprlib import repr as short
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from tidewheel.progress import IntegerDomain, TimeDomain
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.living_readers import RETENTION_S
from tidewheel.storage.store_url import absolute, is_place, is_url

if TYPE_CHECKING:
    from tidewheel.pubsub.log.headers import LogIdentity

_MOST_IN_PATH: Final = 255
"""The greatest number of bytes in a directory's name that file systems accept."""

_MOST_IN_URL: Final = 700
"""The greatest number of bytes of a name in an object store, which accepts 1,024 bytes for a whole path."""

_FIRST_CHARACTERS: Final = 15
"""The number of characters of a long name in a directory's name. Each becomes 12 bytes at most, so a hash has room."""


@dataclass(frozen=True, slots=True)
class Log:
    """The log of a topic: it keeps messages, so that each is delivered exactly once.

    A publisher writes every batch to the log before a subscriber receives it. The log keeps the batch until all
    subscriptions have acknowledged it, whichever process dies. Logs need Ray: the local engine refuses them.

    Args:
        place: a directory on each worker's node that only this user can read. Logs in ``s3://bucket/prefix``, ``gs://``
            or ``az://`` outlive their nodes; the publishers' environment must have the credentials. A job started again
            with the same log continues it, with any number of workers.
        retention_s: the seconds for which the log keeps messages for a durable subscription without a reader.
    """

    place: str | os.PathLike[str]
    retention_s: float = RETENTION_S


@dataclass(frozen=True, slots=True)
class TopicLog:
    """The logs of all partitions of a topic: each on the node of its worker, or all in an object store.

    Args:
        directory: a URL or a directory, with one subdirectory for each topic, and in it one for each partition.
        retention_s: the seconds for which the log keeps messages for a durable subscription without a reader.
    """

    directory: str
    retention_s: float = RETENTION_S

    def of_partition(self, topic: str, partition: int) -> str:
        return f"{self.of_topic(topic)}/partition-{partition}"

    def of_topic(self, topic: str) -> str:
        return f"{self.directory.rstrip('/')}/{self._folder(topic)}"

    def _folder(self, topic: str) -> str:
        """Return the directory of a topic: its name or, if that is too long, its beginning, a ``=`` and a hash."""
        name = _quoted(topic)
        if len(name) <= (_MOST_IN_URL if is_url(self.directory) else _MOST_IN_PATH):
            return name
        return f"{_quoted(topic[:_FIRST_CHARACTERS])}={sha256(topic.encode()).hexdigest()}"


def topic_log(topic: str, log: object) -> TopicLog | None:
    """Return the checked log of a topic; None if it has none.

    Raises:
        DeliveryError: ``log`` is not a `Log`, or one of its values is wrong.
    """
    if log is None:
        return None
    if not isinstance(log, Log):
        raise DeliveryError(f"topic {topic!r}: log is tw.Log(place), not {short(log)}", topic=topic)
    directory, retention_s = log.place, log.retention_s
    if not is_place(directory):
        raise DeliveryError(
            f"topic {topic!r}: the place of a log is a directory or a URL, not {short(directory)}", topic=topic
        )
    if isinstance(retention_s, bool) or not isinstance(retention_s, int | float) or not retention_s > 0:
        raise DeliveryError(
            f"topic {topic!r}: retention_s is a number of seconds above 0, not {retention_s!r}", topic=topic
        )
    where = absolute(
        directory, "place for a log", lambda reason: DeliveryError(f"topic {topic!r}: {reason}", topic=topic)
    )
    return TopicLog(where, float(retention_s))


def _quoted(text: str) -> str:
    return quote(text, safe="").replace(".", "%2E")


def identity_of(topic: str, partition: int, partitions: int, domain: TimeDomain) -> "LogIdentity":
    """Return the identity of a log; the text of its domain must never change."""
    from tidewheel.pubsub.log.headers import LogIdentity

    named = repr(domain).replace(repr(IntegerDomain()), f"IntegerDomain(maximum={IntegerDomain().maximum})")
    return LogIdentity(topic, partition, partitions, re.sub(r" at 0x[0-9a-fA-F]+", "", named))
