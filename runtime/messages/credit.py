"""The report of one worker to another on bytes in flight, and how bytes are counted."""

from dataclasses import dataclass

DEFAULT_BYTES_IN_FLIGHT = 64 << 20
"""For each worker."""


OVERHEAD_BYTES = 256
"""The bytes that count for a message beside its records, so that many small ones are limited, too."""


UNTOLD_PARTS = 8
"""The part of its limit, as a divisor, at which a worker reports at the latest what it has taken."""


@dataclass(frozen=True, slots=True)
class Credit:
    """What one worker tells another.

    Attributes:
        taken: how many of the bytes that the other has sent it were taken by operators, since the beginning.
        congested: whether it answers for more bytes than its limit.
    """

    taken: int
    congested: bool
