"""Where the gateway listens."""

import ipaddress
import os
import socket
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from tidewheel.pubsub.gateway.errors import GatewayError

_BACKLOG = 256


@dataclass(frozen=True, slots=True)
class Address:
    """An address of this machine.

    Args:
        ip: the number, such as ``127.0.0.1``.
        family: what kind of number it is.
    """

    ip: str
    family: socket.AddressFamily

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(self.ip).is_loopback

    def url(self, scheme: str, port: int) -> str:
        """Return the URL of a port.

        >>> Address("::1", socket.AF_INET6).url("http", 8787)
        'http://[::1]:8787'
        """
        return f"{scheme}://{f'[{self.ip}]' if self.family == socket.AF_INET6 else self.ip}:{port}"


def resolve(host: str) -> Address:
    """Return the address that a host stands for, the older kind where there are two.

    Raises:
        GatewayError: it stands for none.

    >>> resolve("127.0.0.1").is_loopback, resolve("0.0.0.0").is_loopback
    (True, False)
    """
    try:
        # An empty name would be every address of the machine, which has to be asked for by its number.
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if host.strip() else []
    except (OSError, UnicodeError) as error:
        raise GatewayError(f"host {host!r} is no address of this machine: {error}") from error
    for family in (socket.AF_INET, socket.AF_INET6):
        for candidate in found:
            if candidate[0] == family:
                return Address(str(candidate[4][0]), family)
    raise GatewayError(f"host {host!r} is no address of this machine")


def listen(address: Address, port: int, stall_s: float) -> socket.socket:
    """Return a socket that listens.

    Args:
        address: where.
        port: which, 0 for any.
        stall_s: after how many seconds a connection breaks whose other end takes nothing.

    Raises:
        GatewayError: the port is taken, or the address is not this machine's.
    """
    try:
        listener = socket.create_server((address.ip, port), family=address.family, backlog=_BACKLOG)
    except OSError as error:
        raise _taken(address, port, "--port", error) from error
    # What is accepted inherits these, so that whoever vanished without a word does not stay a client for ever.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(stall_s * 1000))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, int(stall_s / 2)))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, int(stall_s / 4)))
    return listener


def check_free(address: Address, port: int) -> None:
    """Check that nobody has a port that gRPC is about to take: it shares a port with any other gRPC server of the user.

    Raises:
        GatewayError: somebody has it, or the address is not this machine's.
    """
    with closing(socket.socket(address.family, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.ip, port))
        except OSError as error:
            raise _taken(address, port, "--flight-port", error) from error


def cut_connections(port: int) -> None:
    """Break every connection that this process has accepted at a port.

    It is for a server that waits for its clients without end and gives no access to its sockets. Those of Linux are
    listed in a folder; elsewhere this does nothing.
    """
    for entry in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):
            if not str(entry.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as found:
                if found.family in {socket.AF_INET, socket.AF_INET6} and found.getsockname()[1] == port:
                    found.getpeername()  # raises for the socket that listens, which is left alone
                    found.shutdown(socket.SHUT_RDWR)


def _taken(address: Address, port: int, option: str, error: OSError) -> GatewayError:
    return GatewayError(f"cannot listen at {address.ip}, port {port}: {error}; {option} chooses another, 0 any")
