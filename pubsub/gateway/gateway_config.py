"""How a gateway is to be started, and what it refuses."""

from dataclasses import dataclass, field

from tidewheel.pubsub.gateway.bounded_assembler import MAX_EPOCH_BYTES
from tidewheel.pubsub.gateway.errors import GatewayError
from tidewheel.pubsub.gateway.listening import Address, resolve
from tidewheel.pubsub.gateway.token import check_form, new_token


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """How a gateway is to be started; by default only this machine reaches it, and only with its token.

    Args:
        host: the address, or the name of one, to listen at.
        port: where HTTP is; 0 for any that is free.
        flight_port: where Arrow Flight is; 0 for any that is free.
        token: what clients have to show, a new one by default; None, which has to be said, for nothing.
        origins: the origins of pages that may ask beside the gateway's own, such as ``http://localhost:3000``.
        max_clients: how many may read at once.
        max_epoch_bytes: how much of epochs may wait, for each of them, to be complete, encoded as it was published.
        keep_alive_s: how long an event stream may be silent, in seconds, before a comment shows that it lives.
        stall_s: for how long, in seconds, a client may take nothing of what is sent to it before it is cut off.

    Raises:
        GatewayError: it would be open to everybody on the network, or a value is none.
    """

    host: str = "127.0.0.1"
    port: int = 8787
    flight_port: int = 8788
    token: str | None = field(default_factory=new_token, repr=False)
    origins: frozenset[str] = frozenset()
    max_clients: int = 100
    max_epoch_bytes: int = MAX_EPOCH_BYTES
    keep_alive_s: float = 15.0
    stall_s: float = 60.0
    address: Address = field(init=False)
    """What the host is, as a number."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", resolve(self.host))
        if self.token is not None:
            check_form(self.token, "token")
        elif not self.address.is_loopback:
            raise GatewayError(
                f"without a token a gateway listens on loopback only, and {self.host!r} is {self.address.ip}: "
                "leave out --no-token, or --host"
            )
        for name in ("port", "flight_port"):
            if not 0 <= getattr(self, name) <= 65535:
                raise GatewayError(f"{name} is {getattr(self, name)}, and a port is a number up to 65535, 0 for any")
        for origin in self.origins:
            _check_origin(origin)
        for name in ("max_clients", "max_epoch_bytes", "keep_alive_s", "stall_s"):
            if getattr(self, name) <= 0:
                raise GatewayError(f"{name} is {getattr(self, name)}, and must be positive")

    @property
    def hosts(self) -> frozenset[str] | None:
        """The names that clients may call this gateway by, None for any."""
        if not self.address.is_loopback:
            return None  # it has names that are not known here, and a token
        return frozenset({"localhost", "127.0.0.1", "::1", self.host.lower(), self.address.ip})


def _check_origin(origin: str) -> None:
    scheme, separator, host = origin.partition("://")
    if not (scheme in {"http", "https"} and separator and host) or set(host) & set("/*?# "):
        raise GatewayError(
            f"{origin!r} is no origin: it is written as a browser sends it, such as http://localhost:3000, one by one"
        )
