"""The settings of a job's snapshots."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from reprlib import repr as short

from tidewheel.runtime.errors import ConfigError
from tidewheel.storage.store_url import absolute, is_place


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Where a job keeps its snapshots, and how often it takes one.

    A job goes on from the last complete snapshot in its folder, and begins without state if there is none. One job at a
    time can use a folder.

    Args:
        folder: a path, ``file:///path``, ``s3://bucket/path``, ``gs://bucket/path`` or ``az://container/path``. For
            several nodes it is one that all of them reach. Credentials come from the environment.
        every_s: how many seconds pass from one snapshot to the next; after one that has taken longer, again so many.
        keep: how many snapshots remain in the folder.
        restarts: how often a job on Ray goes back to the last snapshot when a process dies, before it fails. After ten
            minutes without a failure the count begins again.
        without: the names of operators that the snapshot may have and the dataflow has not; what they had is lost.
        accept: the names of operators whose functions, or types of records, are others than in the snapshot, and whose
            state is right all the same.

    Raises:
        ConfigError: a setting is out of its range.

    >>> Snapshots("s3://bucket/job", every_s=0)
    Traceback (most recent call last):
    ...
    tidewheel.runtime.errors.ConfigError: Snapshots(every_s=0): a number of seconds above 0
    """

    folder: str | os.PathLike[str]
    every_s: float = 10.0
    keep: int = 3
    restarts: int = 3
    without: Sequence[str] = ()
    accept: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not is_place(self.folder):
            raise ConfigError(
                f"Snapshots({short(self.folder)}): the path of a folder, or the URL of one in an object store"
            )
        absolute(self.folder, "folder for snapshots", ConfigError)
        if not (isinstance(self.every_s, int | float) and self.every_s > 0):
            raise ConfigError(f"Snapshots(every_s={self.every_s!r}): a number of seconds above 0")
        if not isinstance(self.keep, int) or isinstance(self.keep, bool) or self.keep < 1:
            raise ConfigError(f"Snapshots(keep={self.keep!r}): a whole number, at least 1")
        if not isinstance(self.restarts, int) or isinstance(self.restarts, bool) or self.restarts < 0:
            raise ConfigError(f"Snapshots(restarts={self.restarts!r}): a whole number, 0 for none")
        for name, given in {"without": self.without, "accept": self.accept}.items():
            if isinstance(given, str):
                raise ConfigError(f"Snapshots({name}={given!r}): a list of names, [{given!r}]")
