"""Credit: a worker's report to another about bytes in flight, and how bytes are counted."""

from dataclasses import dataclass

DEFAULT_BYTES_IN_FLIGHT = 64 << 20
"""The default limit of bytes in flight for each worker."""


OVERHEAD_BYTES = 256
"""The bytes that each message counts beside its records, so that many small messages are limited too."""


UNTOLD_PARTS = 8
"""A worker reports received bytes at the latest when they reach its limit divided by this number."""


@dataclass(frozen=True, slots=True)
class Credit:
    """The report of one worker to another about bytes in flight.

    Attributes:
        taken: how many bytes from the other worker the operators here have received since the beginning.
        congested: whether this worker has more bytes in flight than its limit.
    """

    taken: int
    congested: bool
