"""A site that a gateway serves beside topics, such as the live page of jobs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection
    from starlette.routing import BaseRoute


class Site(Protocol):
    """Routes of a site, which the gateway serves behind its guards."""

    def routes(self, keep_alive_s: float) -> "Sequence[BaseRoute]":
        """Return the routes; an idle stream shows every ``keep_alive_s`` seconds that it is alive."""

    def is_open(self, request: "HTTPConnection") -> bool:
        """Tell whether anyone may read the requested file, without a token, even by a link on a foreign page."""

    def close(self) -> None:
        """End all streams, without waiting."""
