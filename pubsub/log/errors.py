"""The errors of a log; each names its directory or file."""

from pathlib import Path

from tidewheel.pubsub.errors import DeliveryError


class LogError(DeliveryError):
    """A call of a log failed.

    Args:
        path: a directory, a file or a URL.
    """

    def __init__(self, message: str, *, path: Path | str | None = None) -> None:
        super().__init__(message)
        self.path = path


class LogLocked(LogError):  # noqa: N818  it names what is so
    """Another process, or another part of this process, has the log open."""


class LogMismatch(LogError):  # noqa: N818  it names what is so
    """The directory holds the log of another partition, or a log in another format.

    Args:
        partitions: the number of partitions of the log's topic if only that number differs; otherwise None.
    """

    def __init__(self, message: str, *, path: Path | str | None = None, partitions: int | None = None) -> None:
        super().__init__(message, path=path)
        self.partitions = partitions


class LogFull(LogError):  # noqa: N818  it names what happened
    """The disk was full. No record of the failed write is logged, and the log continues once there is room."""


class LogFailed(LogError):  # noqa: N818  it names what happened
    """A write failed. Durable records can still be read; to write, open the log again.

    The records of the failed write may or may not be in the log.
    """


class LogTakenOver(LogFailed):
    """Another publisher has opened the log in an object store, so this publisher can no longer write."""


class StoreFailed(LogError):  # noqa: N818  it names what happened
    """An object store failed, or did not answer in time."""


class LogCorrupted(LogError):  # noqa: N818  it names what happened
    """Durable bytes have changed on disk; the log does not return them."""

    def __init__(
        self, message: str, *, path: Path | str | None = None, offset: int | None = None, tick: int | None = None
    ) -> None:
        super().__init__(message, path=path)
        self.offset = offset
        self.tick = tick


def corrupted(path: Path | str, offset: int, what: str, tick: int | None = None) -> LogCorrupted:
    at_tick = "" if tick is None else f", tick {tick}"
    directory = str(path).rpartition("/")[0]
    return LogCorrupted(
        f"{path} is damaged at byte {offset}{at_tick}: {what}. Nothing of it is delivered. Put back a copy of the "
        f"directory {directory}, or remove it to begin an empty log, which loses all unread messages",
        path=path,
        offset=offset,
        tick=tick,
    )
