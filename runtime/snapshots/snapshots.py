"""The settings of a job's snapshots."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from reprlib import repr as short

from tidewheel.runtime.errors import ConfigError
from tidewheel.storage.store_url import absolute, is_place


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The settings of a job's snapshots: where the job keeps them, and how often it takes one.

    A job continues from the last complete snapshot in the folder, or begins without state. Only one job at a time can
    use a folder.

    Args:
        folder: a path, ``file:///path``, ``s3://bucket/path``, ``gs://bucket/path`` or ``az://container/path``. A job
            on several nodes needs a folder that all can reach. Credentials come from the environment.
        every_s: the seconds from one snapshot to the next, or longer if the last snapshot took longer.
        keep: how many snapshots the folder keeps.
        restarts: how often a Ray job may return to the last snapshot after the death of a process. Ten minutes without
            failure reset the count.
        without: operators of the snapshot that the dataflow no longer has; their state is dropped.
        accept: operators whose functions or types of records have changed, and whose state still fits.

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
