"""The options of a gateway, and the combinations that it refuses."""

from dataclasses import dataclass, field

from tidewheel.pubsub.gateway.bounded_assembler import MAX_EPOCH_BYTES
from tidewheel.pubsub.gateway.errors import GatewayError
from tidewheel.pubsub.gateway.listening import Address, resolve
from tidewheel.pubsub.gateway.token import check_form, new_token


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The options of a gateway. By default only this machine reaches it, and only with its token.

    Args:
        host: the address to listen at, or its name.
        port: the port of HTTP; 0 for any free one.
        flight_port: the port of Arrow Flight; 0 for any free one.
        token: the token that clients have to show, a new one by default; None if they need none.
        origins: the origins of other pages that may send requests, such as ``http://localhost:3000``.
        max_clients: the largest number of clients that read at once.
        max_epoch_bytes: the largest size of incomplete epochs, encoded, that the gateway keeps for a client.
        keep_alive_s: an event stream sends a comment after so many seconds without an event.
        stall_s: a client that receives nothing of what is sent for so many seconds is disconnected.

    Raises:
        GatewayError: everybody on the network could read, or a value is not valid.
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
    """The numeric address of the host."""

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
                raise GatewayError(
                    f"{name} is {getattr(self, name)}, and a port is a number from 0 to 65535, 0 for any free one"
                )
        for origin in self.origins:
            _check_origin(origin)
        for name in ("max_clients", "max_epoch_bytes", "keep_alive_s", "stall_s"):
            if getattr(self, name) <= 0:
                raise GatewayError(f"{name} is {getattr(self, name)}, and must be positive")

    @property
    def hosts(self) -> frozenset[str] | None:
        """The host names that clients may use for this gateway, None for any."""
        if not self.address.is_loopback:
            return None  # it has names that are not known here, and a token
        return frozenset({"localhost", "127.0.0.1", "::1", self.host.lower(), self.address.ip})


def _check_origin(origin: str) -> None:
    scheme, separator, host = origin.partition("://")
    if not (scheme in {"http", "https"} and separator and host) or set(host) & set("/*?# "):
        raise GatewayError(f"{origin!r} is no origin: write one as a browser sends it, such as http://localhost:3000")
