"""Credit: how one worker tells another about bytes in flight, and how bytes are counted."""

from dataclasses import dataclass

DEFAULT_BYTES_IN_FLIGHT = 64 << 20
"""The default limit of bytes in flight for each worker."""


OVERHEAD_BYTES = 256
"""The bytes that count for a message beside its records, so that many small ones are limited, too."""


UNTOLD_PARTS = 8
"""The part of its limit, as a divisor, at which a worker reports at the latest how many bytes it has taken."""


@dataclass(frozen=True, slots=True)
class Credit:
    """The report of one worker to another about bytes in flight.

    Attributes:
        taken: how many of the bytes that the other has sent, since the beginning, operators here have received.
        congested: whether this worker has more bytes in flight than its limit.
    """

    taken: int
    congested: bool
