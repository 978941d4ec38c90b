"""What can go wrong at the gateway; what goes wrong with a topic itself is a `DeliveryError`, as everywhere."""

from tidewheel.progress import TidewheelError


class GatewayError(TidewheelError):
    """The gateway cannot be started as it was asked to be."""


class BadRequest(GatewayError):  # noqa: N818  it names what happened
    """A client asks for something that there cannot be; the message says what, and what there can be."""


class TooManyClients(GatewayError):  # noqa: N818  it names what happened
    """As many clients read as the gateway lets in, or it is being stopped."""
