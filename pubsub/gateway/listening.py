"""The addresses and sockets at which the gateway listens."""

import ipaddress
import socket
from dataclasses import dataclass

from tidewheel.pubsub.gateway.errors import GatewayError

_BACKLOG = 256


@dataclass(frozen=True, slots=True)
class Address:
    """An address of this machine.

    Args:
        ip: the address in digits, such as ``127.0.0.1``.
        family: the version of IP.
    """

    ip: str
    family: socket.AddressFamily

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect to it."""
        return ipaddress.ip_address(self.ip).is_loopback

    def url(self, scheme: str, port: int) -> str:
        """Return the URL of a port.

        >>> Address("::1", socket.AF_INET6).url("http", 8787)
        'http://[::1]:8787'
        """
        return f"{scheme}://{f'[{self.ip}]' if self.family == socket.AF_INET6 else self.ip}:{port}"


def resolve(host: str) -> Address:
    """Return the address of a host, that of IP version 4 if it has both.

    Raises:
        GatewayError: the host has no address.

    >>> resolve("127.0.0.1").is_loopback, resolve("0.0.0.0").is_loopback
    (True, False)
    """
    try:
        # An empty name would mean every address of the machine; for that the user has to give the address.
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if host.strip() else []
    except (OSError, UnicodeError) as error:
        raise GatewayError(f"host {host!r} is no address of this machine: {error}") from error
    for family in (socket.AF_INET, socket.AF_INET6):
        for candidate in found:
            if candidate[0] == family:
                return Address(str(candidate[4][0]), family)
    raise GatewayError(f"host {host!r} is no address of this machine")


def listen(address: Address, port: int, stall_s: float, option: str = "--port") -> socket.socket:
    """Return a socket that listens.

    Args:
        address: the address to listen at.
        port: the port, 0 for any.
        stall_s: after how many seconds a connection breaks whose other end acknowledges nothing.
        option: the option of the command line that chooses the port, for the error.

    Raises:
        GatewayError: the port is taken, or the address is not this machine's.
    """
    try:
        listener = socket.create_server((address.ip, port), family=address.family, backlog=_BACKLOG)
    except OSError as error:
        raise _taken(address, port, option, error) from error
    # Accepted sockets inherit these, so that a client whose machine has vanished does not stay forever.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(stall_s * 1000))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, int(stall_s / 2)))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, int(stall_s / 4)))
    return listener


def _taken(address: Address, port: int, option: str, error: OSError) -> GatewayError:
    return GatewayError(f"cannot listen at {address.ip}, port {port}: {error}; {option} chooses another, 0 any")
