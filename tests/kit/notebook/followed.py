"""A reader of a job that is made by hand, for views in a notebook."""

from collections.abc import Iterator

from tests.kit.gateway.paged import HandJobs
from tidewheel.pubsub.subscribers.view import View


class Followed:
    """A reader of a job that is made by hand."""

    def __init__(self, jobs: HandJobs, name: str) -> None:
        self._jobs, self._name = jobs, name

    def __iter__(self) -> Iterator[View]:
        with self._jobs.read(self._name) as views:
            yield from views

    def close(self) -> None:
        self._jobs.end(self._name)
