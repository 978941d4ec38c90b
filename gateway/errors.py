"""The errors of the gateway; the errors of a topic are `DeliveryError`."""

from tidewheel.progress import TidewheelError


class GatewayError(TidewheelError):
    """The gateway cannot start with these options."""


class BadRequest(GatewayError):  # noqa: N818  it names what happened
    """A request is not valid; the message has the reason and a valid form."""


class TooLarge(BadRequest):
    """The body of a request has too many bytes."""


class TooManyClients(GatewayError):  # noqa: N818  it names what happened
    """The gateway has its largest number of clients, or is stopping."""


class InputFull(GatewayError):  # noqa: N818  it names what happened
    """The input of a job has no room now; nothing was sent."""


class UnknownJob(GatewayError):  # noqa: N818  it names what happened
    """The gateway has not found a job with this name."""


class UnknownInput(GatewayError):  # noqa: N818  it names what happened
    """The job has no inbox, or no look-up, with this name."""
