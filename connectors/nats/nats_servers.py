"""The settings of a NATS client: the servers, the arguments of ``nats.connect``, and secrets by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidewheel.connectors.base.secret_settings import check_secrets, with_secrets
from tidewheel.connectors.nats.errors import NatsError
from tidewheel.host.extras import check_extra
from tidewheel.progress import GraphError
from tidewheel.progress.redaction import has_apparent_secret

_OURS: Final = frozenset(
    {
        "allow_reconnect",
        "closed_cb",
        "disconnected_cb",
        "error_cb",
        "max_reconnect_attempts",
        "reconnect_time_wait",
        "reconnected_cb",
        "servers",
    }
)
"""The settings on which the promises of sources and sinks stand."""


@dataclass(frozen=True, slots=True, repr=False)
class NatsServers:
    """The servers and further settings of a client; picklable, without its passwords.

    Raises:
        GraphError: a password is not a `Secret`, or the source or sink itself sets a given setting.
        NatsError: the extra ``nats`` is not installed.
    """

    kind: str
    servers: str
    given: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_extra("nats", self.kind, NatsError)
        if not isinstance(self.servers, str) or not self.servers:
            raise GraphError(f"{self.kind}: servers is one address or several, such as 'first:4222,second:4222'")
        if "@" in self.servers or has_apparent_secret(self.servers):  # a client takes me:password@host without a scheme
            raise GraphError(
                f"{self.kind}: the address of a server has a user or password, which would be pickled with the "
                "dataflow. Put them into config, the password as a tw.Secret"
            )
        check_secrets(self.kind, "config", self.given, "NATS_PASSWORD")
        if ours := sorted(_OURS & self.given.keys()):
            raise GraphError(f"{self.kind}: config has {', '.join(ours)}, which the {self.kind} sets itself: remove it")

    def settings(self) -> dict[str, Any]:
        """Return the settings for a client, with the values of secrets, read now."""
        settings = {"connect_timeout": 5, "name": "tidewheel", **with_secrets(self.given)}
        if callable(tls := settings.get("tls")):
            settings["tls"] = tls()
        return settings
