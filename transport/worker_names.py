"""The names of the actors that host workers, by which other processes of the cluster find a job."""

from typing import Final

WORKER_PREFIX: Final = "tidewheel-"


def worker_name(job: str, worker: int) -> str:
    """Return the name of the actor that hosts a worker of a job.

    >>> worker_name("words-0badcafe", 0)
    'tidewheel-words-0badcafe-worker-0'
    """
    return f"{WORKER_PREFIX}{job}-worker-{worker}"
