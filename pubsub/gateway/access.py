"""Access control of the gateway over HTTP. No I/O: the headers of a request go in, a refusal comes out.

The gateway checks three things, in this order:

- The host that the client addresses. On loopback it has to be one of this machine's usual names. A page whose own name
  was made to point here (DNS rebinding) sends that name, and is refused.
- The page that sends the request, as the browser names it. Only pages of the gateway's own address and of allowed
  origins may send requests, whatever token they have.
- The token. A header carries it. Browsers cannot set that header: a WebSocket carries the token as a subprotocol, and
  the URL of Server-Sent Events carries it in the query.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tidewheel.pubsub.gateway.token import is_token

SUBPROTOCOL = "tidewheel"
"""The subprotocol of WebSockets; a client that also offers ``bearer.TOKEN`` has shown its token."""

_BEARER_PREFIX = "bearer."
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\s:/?#@\[\]]+))(?::\d*)?", re.IGNORECASE)
_FOREIGN_SITES = {"cross-site", "same-site"}
_HOW = (
    "send 'Authorization: Bearer TOKEN' with the token that was passed to the gateway or that it showed at its start. "
    f"A WebSocket may offer subprotocols {SUBPROTOCOL} and {_BEARER_PREFIX}TOKEN, an EventSource may add token=TOKEN"
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a request is refused: the HTTP status, and a text for the client."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class Credentials:
    """The parts of a request that decide about access; None for those that are missing.

    Args:
        host: the header of that name.
        origin: the header of that name, which browsers send.
        site: the header ``Sec-Fetch-Site``, which browsers send.
        authorization: the header of that name.
        subprotocols: those that a WebSocket offers.
        query_token: the parameter ``token``, on paths that may have one.
    """

    host: str | None = None
    origin: str | None = None
    site: str | None = None
    authorization: str | None = field(default=None, repr=False)
    subprotocols: Iterable[str] = field(default=(), repr=False)
    query_token: str | None = field(default=None, repr=False)

    @property
    def tokens(self) -> list[str]:
        """The tokens that the request shows; an empty one for an ``Authorization`` of another scheme."""
        shown = [name.removeprefix(_BEARER_PREFIX) for name in self.subprotocols if name.startswith(_BEARER_PREFIX)]
        if self.authorization is not None:
            scheme, _, token = self.authorization.partition(" ")
            shown.append(token.strip() if scheme.lower() == "bearer" else "")
        if self.query_token is not None:
            shown.append(self.query_token)
        return shown


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one gateway.

    Args:
        token: the token that clients have to show; None if they need none.
        hosts: the names of the gateway, in lower case; None for any.
        origins: the origins of other pages that may send requests, such as ``http://localhost:3000``.

    >>> access = Access(token=None, hosts=frozenset({"localhost"}))
    >>> access.place_refusal(Credentials(host="evil.example:8787")).status
    403
    """

    token: str | None = field(repr=False)
    hosts: frozenset[str] | None = None
    origins: frozenset[str] = frozenset()

    def place_refusal(self, shown: Credentials) -> Refusal | None:
        """Return why a request is refused for its host or its page; None if it is not refused."""
        name = host_name(shown.host)
        if name is None:
            return Refusal(400, "the request has no Host header, or one that names no host")
        if self.hosts is not None and name not in self.hosts:
            return Refusal(403, f"this gateway is not {name!r}, but one of {', '.join(sorted(self.hosts))}")
        if shown.origin is not None:
            own = shown.origin.partition("://")[2].lower() == (shown.host or "").lower()
            if own or shown.origin in self.origins:
                return None
            return Refusal(
                403, f"pages of {shown.origin} may not read topics here; start the gateway with --allow-origin for that"
            )
        if shown.site in _FOREIGN_SITES:
            return Refusal(403, "pages of other sites may not load anything from here")
        return None

    def token_refusal(self, shown: Credentials) -> Refusal | None:
        """Return why a request is refused for a wrong or missing token; None if it is not refused."""
        if self.token is None:
            return None
        tokens = shown.tokens
        if not tokens:
            return Refusal(401, f"there is no token: {_HOW}")
        if not all(is_token(token, self.token) for token in tokens):
            return Refusal(401, f"the token is wrong: {_HOW}")
        return None


def host_name(header: str | None) -> str | None:
    """Return the name in a Host header, in lower case and without the port; None if there is none.

    >>> host_name("LocalHost:8787"), host_name("[::1]:8787"), host_name("[::1")
    ('localhost', '::1', None)
    """
    found = _HOST.fullmatch(header or "")
    return None if found is None else (found[1] or found[2]).lower()
