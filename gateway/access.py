"""Access control of the gateway: the token, and the rules for requests; no I/O.

The gateway checks of an HTTP request, in this order:

- The host that the client addresses. On loopback it must be one of this machine's usual names. This refuses pages whose
  foreign host name was made to point here (DNS rebinding).
- The page that sends the request, according to the browser's headers. Its address must be the gateway's own, or an
  allowed origin.
- The token, with which a client may read every topic. It comes in a header. Browsers cannot always set headers, so a
  WebSocket has the token in a subprotocol, and Server-Sent Events have it in the query.

Of a call over Arrow Flight, the gateway checks the token.
"""

import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidewheel.gateway.errors import GatewayError

SUBPROTOCOL = "tidewheel"
"""The subprotocol of WebSockets. To show its token, a client also offers the subprotocol ``bearer.TOKEN``."""

_BEARER_PREFIX = "bearer."
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\s:/?#@\[\]]+))(?::\d*)?", re.IGNORECASE)
_FOREIGN_SITES = {"cross-site", "same-site"}
_HOW = (
    "send 'Authorization: Bearer TOKEN' with the token that was passed to the gateway or that it showed at its start. "
    f"A WebSocket may offer subprotocols {SUBPROTOCOL} and {_BEARER_PREFIX}TOKEN. Only an EventSource may add "
    "token=TOKEN: other paths than /topics/NAME/events take no token from the URL"
)
_RANDOM_BYTES = 32
_TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,512}")


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    message: str


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one gateway.

    Args:
        hosts: the names by which clients may address the gateway, in lower case; None for any.
        origins: the origins of other pages that may send requests, such as ``http://localhost:3000``.

    >>> access = Access(token=None, hosts=frozenset({"localhost"}))
    >>> access.place_refusal({"host": "evil.example:8787"}).status
    403
    """

    token: str | None = field(repr=False)
    hosts: frozenset[str] | None = None
    origins: frozenset[str] = frozenset()

    def place_refusal(self, headers: Mapping[str, str], *, may_be_opened: bool = False) -> Refusal | None:
        """Return the reason to refuse a request for its host or its page; None if it is allowed.

        Args:
            headers: the request's headers, with names in lower case; browsers send ``origin`` and ``sec-fetch-site``.
            may_be_opened: whether a link on another site may open the requested page, without that site reading it.
        """
        host, origin = headers.get("host", ""), headers.get("origin")
        name = host_name(host)
        if name is None:
            return Refusal(400, "the request has no Host header, or one that names no host")
        if self.hosts is not None and name not in self.hosts:
            return Refusal(403, f"this gateway is not {name!r}, but one of {', '.join(sorted(self.hosts))}")
        if origin is not None:
            if origin.partition("://")[2].lower() == host.lower() or origin in self.origins:
                return None
            return Refusal(
                403, f"pages of {origin} may not read topics here; start the gateway with --allow-origin for that"
            )
        is_opened = may_be_opened and headers.get("sec-fetch-dest") == "document"
        if headers.get("sec-fetch-site") in _FOREIGN_SITES and not is_opened:
            return Refusal(403, "pages of other sites may not load anything from here")
        return None

    def token_refusal(self, shown: Iterable[str]) -> Refusal | None:
        """Return the reason to refuse a request with the tokens ``shown``; None if it is allowed.

        The time of the comparison does not depend on the contents of the tokens.
        """
        if self.token is None:
            return None
        token = self.token.encode()
        are_right = [hmac.compare_digest(one.encode("utf-8", "surrogateescape"), token) for one in shown]
        if all(are_right) and are_right:
            return None
        return Refusal(401, f"{'the token is wrong' if are_right else 'there is no token'}: {_HOW}")


def tokens_in(authorizations: Iterable[str], subprotocols: Iterable[str] = ()) -> list[str]:
    """Return the tokens in ``Authorization`` headers (empty for other schemes) and in a WebSocket's subprotocols.

    >>> tokens_in(["Bearer abc", "Basic abc"], ["tidewheel", "bearer.def"])
    ['def', 'abc', '']
    """
    shown = [name.removeprefix(_BEARER_PREFIX) for name in subprotocols if name.startswith(_BEARER_PREFIX)]
    for authorization in authorizations:
        scheme, _, token = authorization.partition(" ")
        shown.append(token.strip() if scheme.lower() == "bearer" else "")
    return shown


def host_name(header: str) -> str | None:
    """Return the name in a Host header, in lower case and without port; None if there is no name.

    >>> host_name("LocalHost:8787"), host_name("[::1]:8787"), host_name("[::1")
    ('localhost', '::1', None)
    """
    found = _HOST.fullmatch(header)
    return None if found is None else (found[1] or found[2]).lower()


def new_token() -> str:
    """Return a random token of 43 characters.

    >>> len(new_token()), new_token() == new_token()
    (43, False)
    """
    return secrets.token_urlsafe(_RANDOM_BYTES)


def check_token(token: str, place: str) -> None:
    """Check that a header, a query and a WebSocket's subprotocol can carry a token unchanged.

    Raises:
        GatewayError: they cannot carry it, or the token is too short to be a secret.
    """
    if not _TOKEN.fullmatch(token):
        raise GatewayError(
            f"{place}: a token is 16 to 512 letters, digits and characters of '-._~', and this one is not. "
            "Make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
