"""The settings of a Kafka client: the servers, the properties of librdkafka, and secrets by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidewheel.connectors.base.secret_settings import check_secrets, with_secrets
from tidewheel.connectors.kafka.errors import KafkaError
from tidewheel.host.extras import check_extra
from tidewheel.progress import GraphError

_OURS: Final = frozenset(
    {
        "bootstrap.servers",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.partition.eof",
        "error_cb",
        "group.id",
        "logger",
        "metadata.broker.list",
        "transactional.id",
    }
)
"""The properties that sources and sinks set themselves, because their guarantees depend on them."""

_MOST_BYTES: Final = 1_000_000
"""The default of ``message.max.bytes``."""


@dataclass(frozen=True, slots=True, repr=False)
class ClientConfig:
    """The servers and further properties of a client; picklable, without its passwords.

    Raises:
        GraphError: a password is not a `Secret`, or only the source or sink may set a given property.
        KafkaError: the extra ``kafka`` is not installed.
    """

    kind: str
    servers: str
    given: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_extra("kafka", self.kind, KafkaError)
        if not isinstance(self.servers, str) or not self.servers:
            raise GraphError(f"{self.kind}: servers is one address or several, such as 'first:9092,second:9092'")
        check_secrets(self.kind, "config", self.given, "KAFKA_PASSWORD")
        if ours := sorted(_OURS & self.given.keys()):
            raise GraphError(f"{self.kind}: config has {', '.join(ours)}, which the {self.kind} sets itself: remove it")

    @property
    def most_bytes(self) -> int:
        """The largest size of a record that the client sends."""
        return int(self.given.get("message.max.bytes", _MOST_BYTES))

    def properties(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Return the properties for a client, with each `Secret` replaced by its value.

        The user's properties replace ``defaults``.
        """
        return {**defaults, **with_secrets(self.given), "bootstrap.servers": self.servers}
