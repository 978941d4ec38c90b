"""The errors of a log; always an exception that names the directory or file, never silence."""

from pathlib import Path

from tidewheel.pubsub.errors import DeliveryError


class LogError(DeliveryError):
    """A log could not do what was asked of it.

    Args:
        message: what was wrong, where, and what to do about it.
        path: the directory of the log, or the file that it is about.
    """

    def __init__(self, message: str, *, path: Path | None = None) -> None:
        super().__init__(message)
        self.path = path


class LogLocked(LogError):  # noqa: N818  it names what is so
    """Another process, or another part of this one, has the log open."""


class LogMismatch(LogError):  # noqa: N818  it names what is so
    """The directory holds the log of something else, or one in another format."""


class LogFull(LogError):  # noqa: N818  it names what happened
    """There was no room. Nothing of what should have been written is in the log, and it goes on once there is room."""


class LogFailed(LogError):  # noqa: N818  it names what happened
    """The log could not be written. It takes nothing more until it is opened anew; what was durable can be read.

    What was to become durable when it failed may be there then, or not.
    """


class LogCorrupted(LogError):  # noqa: N818  it names what happened
    """What was durable is not what was written; none of it is delivered.

    Args:
        message: what was wrong, where, and what to do about it.
        path: the file.
        offset: the first byte in the file of the header or record that is damaged.
        tick: of the record; None where that cannot be known.
    """

    def __init__(
        self, message: str, *, path: Path | None = None, offset: int | None = None, tick: int | None = None
    ) -> None:
        super().__init__(message, path=path)
        self.offset = offset
        self.tick = tick


def corrupted(path: Path, offset: int, what: str, tick: int | None = None) -> LogCorrupted:
    """Return the error for a file that is damaged; ``what`` says how that showed."""
    at_tick = "" if tick is None else f", tick {tick}"
    return LogCorrupted(
        f"{path} is damaged at byte {offset}{at_tick}: {what}. Nothing of it is delivered. Put back a copy of the "
        f"directory {path.parent}, or remove it to begin an empty log, which loses what nobody has received yet",
        path=path,
        offset=offset,
        tick=tick,
    )
