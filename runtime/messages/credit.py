"""One worker's report to another on bytes in flight, and how bytes are counted."""

from dataclasses import dataclass

DEFAULT_BYTES_IN_FLIGHT = 64 << 20
"""The default limit of bytes in flight for each worker."""


OVERHEAD_BYTES = 256
"""The bytes that count for a message beside its records, so that many small ones are limited, too."""


UNTOLD_PARTS = 8
"""The part of its limit, as a divisor, at which a worker reports at the latest how many bytes it has taken."""


@dataclass(frozen=True, slots=True)
class Credit:
    """One worker's report to another.

    Attributes:
        taken: how many of the other's sent bytes operators here have received, since the beginning.
        congested: whether it has more bytes in flight than its limit.
    """

    taken: int
    congested: bool
