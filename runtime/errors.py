"""The errors of the runtime layer."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidewheel.progress.errors import TidewheelError
from tidewheel.transport.link import PeerLost


class TokenError(TidewheelError):
    """A program has used a timestamp token, or an input handle, in a wrong way."""


class ConfigError(TidewheelError, ValueError):
    """A setting is wrong; the message has its name, its value and its possible values."""


class WouldBlock(TidewheelError):  # noqa: N818 - named for what it says
    """An input had no room in time, for example because too many bytes are in flight; nothing was sent."""


class SnapshotError(TidewheelError):
    """A snapshot cannot be taken, stored or read; the message says why and what to do."""


class JobRolledBack(TidewheelError):  # noqa: N818 - named for what it says
    """A process of a job has died and the job has returned to a snapshot.

    Send the batches after each handle's position again.
    """


class JobError(TidewheelError):
    """A job failed, or cannot do what the program asks for.

    Attributes:
        operator: the name of the operator that raised, or None.
        worker: the number of the worker that failed, or None.
        time: the time of the processed message, or None.
        traceback_text: the traceback of the operator's exception, as text; empty if there is none.
    """

    def __init__(
        self,
        message: str,
        operator: str | None = None,
        worker: int | None = None,
        time: Any = None,
        traceback_text: str = "",
    ) -> None:
        super().__init__(message, operator, worker, time, traceback_text)
        self.operator = operator
        self.worker = worker
        self.time = time
        self.traceback_text: str = self.args[-1]

    def __str__(self) -> str:
        """Return the message and the traceback, unless Python prints the traceback as the cause of the error."""
        text = self.traceback_text if self.__cause__ is None else ""
        return str(self.args[0]) + (f"\n\n{text}" if text else "")


class FeederGone(JobError):  # noqa: N818 - named for what it says
    """Another process that feeds a job has ended before it closed its handles."""


class WorkerGone(JobError):  # noqa: N818 - named for what it says
    """The process of a worker has died."""


class AttachmentGone(JobError):  # noqa: N818 - named for what it says
    """A process beside a job's workers, such as a publisher, has died."""


class CannotGoBack(JobError):  # noqa: N818 - named for what it says
    """A job cannot return to a snapshot, so it fails for good; the message says why."""


@contextmanager
def lost_peers_fail_the_job() -> Iterator[None]:
    """Raise JobError instead of `PeerLost`."""
    try:
        yield
    except PeerLost as lost:
        raise JobError(str(lost), worker=lost.worker) from lost.__cause__
