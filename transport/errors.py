"""The error of a link that has lost a peer."""

from tidewheel.progress.errors import TidewheelError


class PeerLost(TidewheelError):  # noqa: N818 - named for what it says
    """A peer cannot be reached, or cannot read what was sent to it.

    Attributes:
        worker: the number of that worker, None if it is not known which.
    """

    def __init__(self, message: str, worker: int | None = None) -> None:
        super().__init__(message, worker)
        self.worker = worker

    def __str__(self) -> str:
        return str(self.args[0])
