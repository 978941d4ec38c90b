"""The errors of the storage of snapshots; each names the folder, the problem and the remedy."""

from tidewheel.runtime.errors import SnapshotError

__all__ = ["FencedError", "SnapshotDamaged", "SnapshotError", "SnapshotFolderGone", "SnapshotFolderInUse"]


class SnapshotFolderInUse(SnapshotError):  # noqa: N818  it names what is so
    """Another job, with a living process, owns the folder."""


class FencedError(SnapshotError):
    """Another job has claimed the folder, so this job can no longer commit."""


class SnapshotFolderGone(FencedError):  # noqa: N818  it names what happened
    """The folder of a job was removed, so the job can no longer commit."""


class SnapshotDamaged(SnapshotError):  # noqa: N818  it names what happened
    """A blob of a snapshot is missing or changed, or no snapshot can be read.

    Attributes:
        blob: the name of the blob; empty if no snapshot can be read.
    """

    def __init__(self, message: str, blob: str = "", problem: str = "") -> None:
        super().__init__(message, blob, problem)
        self.blob = blob
        self.problem = problem

    def __str__(self) -> str:
        return str(self.args[0])
