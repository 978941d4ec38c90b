"""The report of a worker on substreams that have not ended."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpenSubstreams:
    """The substreams of one declaration that have not ended on a worker.

    Attributes:
        name: of the declaration.
        count: how many.
        keys: some of their keys, for people.
        waiting: how many keys wait to be used again.
    """

    name: str
    count: int
    keys: tuple[str, ...]
    waiting: int
