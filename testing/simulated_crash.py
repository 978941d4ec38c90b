"""A simulated crash of a job in a check, before or after one call of a source or a sink."""

import os
from dataclasses import dataclass
from typing import Generic, TypeVar

CallT = TypeVar("CallT")

IN_MEMORY = next((folder for folder in ("/dev/shm",) if os.access(folder, os.W_OK)), None)  # noqa: S108 - no power fails
"""A folder in memory for the files of the checks, if there is one."""


class SimulatedCrash(BaseException):
    """A simulated death of the job's process."""


@dataclass(frozen=True, slots=True)
class Moment(Generic[CallT]):
    """The moment of a crash: before or after a call.

    >>> str(Moment("commit(7)", is_after=True))
    'after commit(7)'
    """

    call: CallT
    is_after: bool

    def __str__(self) -> str:
        return f"{'after' if self.is_after else 'before'} {self.call}"
