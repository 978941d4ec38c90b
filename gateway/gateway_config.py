"""The options of a gateway, their checks, and the gateway's addresses and sockets."""

import ipaddress
import socket
from dataclasses import dataclass, field
from typing import TypeAlias

from tidewheel.gateway.access import check_token, new_token
from tidewheel.gateway.clients import MAX_EPOCH_BYTES
from tidewheel.gateway.errors import GatewayError

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

BACKLOG = 2048
"""The largest number of connections that wait until a server of the gateway accepts them."""


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The options of a gateway. By default only this machine reaches it, with its token.

    Args:
        host: the address or name to listen at.
        port: the port of HTTP; 0 for any free port.
        flight_port: the port of Arrow Flight; 0 for any free port, None for no Arrow Flight.
        token: the token that clients need; by default a new one. None if clients need no token.
        origins: the origins of other pages that may send requests, such as ``http://localhost:3000``.
        max_clients: the greatest number of clients at once.
        max_epoch_bytes: the limit, in encoded bytes, of a client's incomplete epochs.
        keep_alive_s: the seconds without an event after which an event stream sends a comment.
        stall_s: the seconds after which a client that does not read is disconnected.

    Raises:
        GatewayError: a value is not valid, or other hosts of the network could read without a token.
    """

    host: str = "127.0.0.1"
    port: int = 8787
    flight_port: int | None = 8788
    token: str | None = field(default_factory=new_token, repr=False)
    origins: frozenset[str] = frozenset()
    max_clients: int = 100
    max_epoch_bytes: int = MAX_EPOCH_BYTES
    keep_alive_s: float = 15.0
    stall_s: float = 60.0
    address: IpAddress = field(init=False)
    """The numeric address of the host."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", resolve(self.host))
        if self.token is not None:
            check_token(self.token, "token")
        elif not self.address.is_loopback:
            raise GatewayError(
                f"without a token a gateway listens on loopback only, and {self.host!r} is {self.address}: "
                "leave out --no-token, or --host"
            )
        for name in ("port", "flight_port"):
            port = getattr(self, name)
            if port is not None and not 0 <= port <= 65535:
                raise GatewayError(f"{name} is {port}, and a port is a number from 0 to 65535, 0 for any free one")
        for origin in self.origins:
            _check_origin(origin)
        for name in ("max_clients", "max_epoch_bytes", "keep_alive_s", "stall_s"):
            if getattr(self, name) <= 0:
                raise GatewayError(f"{name} is {getattr(self, name)}, and must be positive")

    @property
    def hosts(self) -> frozenset[str] | None:
        """The host names that clients may use; None for any."""
        if not self.address.is_loopback:
            return None  # such an address has names that this process does not know; its clients need a token
        return frozenset({"localhost", "127.0.0.1", "::1", self.host.lower(), str(self.address)})


def _check_origin(origin: str) -> None:
    scheme, separator, host = origin.partition("://")
    if not (scheme in {"http", "https"} and separator and host) or set(host) & set("/*?# "):
        raise GatewayError(f"{origin!r} is no origin: write one as a browser sends it, such as http://localhost:3000")


def resolve(host: str) -> IpAddress:
    """Return the address of a host, preferring IP version 4; raise GatewayError if the host has no address.

    >>> resolve("127.0.0.1").is_loopback, resolve("0.0.0.0").is_loopback
    (True, False)
    >>> resolve("::ffff:127.0.0.1")
    IPv4Address('127.0.0.1')
    """
    try:
        # An empty name would mean every address of the machine; the user must ask for this by an address.
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if host.strip() else []
    except (OSError, UnicodeError) as error:
        raise GatewayError(f"host {host!r} is no address of this machine: {error}") from error
    for family in (socket.AF_INET, socket.AF_INET6):
        for candidate in found:
            if candidate[0] == family:
                address = ipaddress.ip_address(candidate[4][0])
                mapped = address.ipv4_mapped if address.version == 6 else None  # Python's versions judge these unlike
                return mapped or address
    raise GatewayError(f"host {host!r} is no address of this machine")


def url(scheme: str, address: IpAddress, port: int) -> str:
    """Return the URL of a port.

    >>> url("http", ipaddress.ip_address("::1"), 8787)
    'http://[::1]:8787'
    """
    return f"{scheme}://{f'[{address}]' if address.version == 6 else address}:{port}"


def listen(address: IpAddress, port: int, stall_s: float, option: str = "--port") -> socket.socket:
    """Return a listening socket.

    A connection breaks after ``stall_s`` seconds without an acknowledgement. Errors name ``option``, the option for the
    port.

    Raises:
        GatewayError: the port is taken, or this machine does not have the address.
    """
    try:
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        listener = socket.create_server((str(address), port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise GatewayError(
            f"cannot listen at {address}, port {port}: {error}; {option} chooses another, 0 any"
        ) from error
    # Accepted sockets inherit these settings, so that a client whose machine has vanished does not stay forever.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(stall_s * 1000))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, int(stall_s / 2)))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, int(stall_s / 4)))
    return listener
