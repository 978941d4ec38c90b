"""The errors of the Kafka client, divided by whether another attempt may succeed."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tidewheel.connectors.kafka.errors import KafkaError

REFUSED: Final = frozenset(
    {
        "ILLEGAL_SASL_STATE",
        "SASL_AUTHENTICATION_FAILED",
        "UNSUPPORTED_SASL_MECHANISM",
        "_AUTHENTICATION",
        "_SSL",
    }
)
"""The errors with which a broker refuses a client."""

FENCED: Final = frozenset({"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "_FENCED"})
"""The errors of a producer whose transactional id another producer has taken over."""

_PASSING: Final = frozenset(
    {
        "BROKER_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "LEADER_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "NOT_COORDINATOR",
        "NOT_LEADER_FOR_PARTITION",
        "REQUEST_TIMED_OUT",
        "_ALL_BROKERS_DOWN",
        "_DESTROY_BROKER",
        "_MSG_TIMED_OUT",
        "_RESOLVE",
        "_TIMED_OUT",
        "_TIMED_OUT_QUEUE",
        "_TRANSPORT",
        "_WAIT_COORD",
    }
)

_STATE: Final = re.compile(r" \(after \d+ms in state \w+(?:, \d+ identical error\(s\) suppressed)?\)")
"""A detail of the client's texts, which differs each time."""

_REMEDIES: Final = {
    **dict.fromkeys(
        REFUSED,
        "Check security.protocol, sasl.* and ssl.* in config, and the environment variables of its secrets",
    ),
    **dict.fromkeys(
        FENCED,
        "Another job writes under the same name. Stop one of them, or give each sink a name of its own",
    ),
    **dict.fromkeys(
        (
            "CLUSTER_AUTHORIZATION_FAILED",
            "GROUP_AUTHORIZATION_FAILED",
            "TOPIC_AUTHORIZATION_FAILED",
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        ),
        "Permit it to the user of this client, as with kafka-acls",
    ),
    **dict.fromkeys(
        ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"),
        "Create the topic, or correct its name",
    ),
    **dict.fromkeys(
        ("OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET"),
        "The topic's retention has deleted records that the job has not read, or the topic was made anew. To go on "
        "with what there is, set 'auto.offset.reset': 'earliest' in config",
    ),
    **dict.fromkeys(
        ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"),
        "Other consumers read as members of this group. Give the job a group of its own",
    ),
}


def is_end(error: Any) -> bool:
    """Tell whether an "error" of the client only marks the end of a partition."""
    return bool(error.name() == "_PARTITION_EOF")


def is_gone(error: Any) -> bool:
    """Tell whether the topic has deleted the next record."""
    return bool(error.name() == "_AUTO_OFFSET_RESET")


def is_refused(error: Any) -> bool:
    """Tell whether a broker refuses the client."""
    return bool(error.name() in REFUSED or "SSL handshake failed" in error.str())


def passes(error: Any) -> bool:
    """Tell whether another attempt may succeed."""
    return bool(not is_refused(error) and (error.name() in _PASSING or error.retriable()))


def failure(error: Any, what: str) -> Exception:
    """Return the exception for a client's error: ConnectionError if another attempt may succeed, else `KafkaError`.

    Args:
        error: the error, of class ``confluent_kafka.KafkaError``.
        what: the action that has failed; the message begins with it.
    """
    said = f"{what}: {_STATE.sub('', error.str())} ({error.name()})"
    if passes(error):
        return ConnectionError(said)
    remedy = _REMEDIES.get("_AUTHENTICATION" if is_refused(error) else error.name())
    return KafkaError(said if remedy is None else f"{said}. {remedy}")


class Trouble:
    """The state of a client's connections, as the client reports it; `note` is its ``error_cb``.

    Attributes:
        latest: the latest error; None if there is none. A refusal stays until a broker answers.
        is_down: whether no broker can be reached.
    """

    def __init__(self) -> None:
        self.latest: Any = None
        self.is_down = False

    def note(self, error: Any) -> None:
        if error.name() == "_ALL_BROKERS_DOWN":
            self.is_down = True
        elif self.latest is None or not is_refused(self.latest):
            self.latest = error

    def forget(self) -> None:
        """Forget all errors, since a broker has answered."""
        self.latest, self.is_down = None, False

    @property
    def is_final(self) -> bool:
        """True if waiting cannot help: brokers refuse the client, or none can be reached."""
        return self.latest is not None and (self.is_down or is_refused(self.latest))

    def behind(self, error: Any) -> Any:
        """Return the connection's error if it may have caused ``error``, such as a timeout; else ``error``."""
        return self.latest if self.latest is not None and passes(error) else error

    @contextmanager
    def explained(self, what: str) -> Iterator[None]:
        """Convert the client's errors in the ``with`` block, by `failure`."""
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as raised:
            raise failure(self.behind(raised.args[0]), what) from None
