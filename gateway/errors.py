"""The errors of the gateway. Errors of a topic are `DeliveryError`, as everywhere."""

from tidewheel.progress import TidewheelError


class GatewayError(TidewheelError):
    """The gateway cannot start with these options."""


class BadRequest(GatewayError):  # noqa: N818  it names what happened
    """A request is not valid; the message says why, and how to write it."""


class TooManyClients(GatewayError):  # noqa: N818  it names what happened
    """The gateway has its largest number of clients, or it is being stopped."""


class UnknownJob(GatewayError):  # noqa: N818  it names what happened
    """The gateway has found no job of that name."""
