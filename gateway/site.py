"""A site that a gateway serves in addition to topics, such as the live page of jobs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection
    from starlette.routing import BaseRoute


class Site(Protocol):
    """The routes of a site, which the gateway serves after its guards' checks."""

    def routes(self, keep_alive_s: float) -> "Sequence[BaseRoute]":
        """Return the routes; an idle stream sends a sign of life every ``keep_alive_s`` seconds."""

    def is_open(self, request: "HTTPConnection") -> bool:
        """Tell whether any client may read the requested file, without a token, even by a link on a foreign page."""

    def close(self) -> None:
        """End all streams, without waiting."""
