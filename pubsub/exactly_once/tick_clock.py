"""The clock of a pubend: it follows the real clock and the ticks of other pubends, and never goes back. No I/O.

Only the speed of the real clock matters, not its time.

Source: Leslie Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System" (1978), rule IR2.
"""


class TickClock:
    """A clock that never goes back.

    >>> clock = TickClock(100)
    >>> clock.at(40), clock.at(45), clock.at(3), clock.at(5)
    (100, 105, 105, 107)
    >>> clock.reach(500)
    >>> clock.at(6), clock.at(6)
    (501, 501)
    """

    def __init__(self, tick: int) -> None:
        self._tick = tick
        self._read: int | None = None

    def at(self, now: int) -> int:
        """Return the tick for a reading of the real clock; if the real clock goes back, the tick stays."""
        if self._read is None:
            self.reach(now)
        else:
            self._tick += max(0, now - self._read)
        self._read = now
        return self._tick

    def reach(self, tick: int) -> None:
        """Continue from a tick if it is later than the current one."""
        self._tick = max(self._tick, tick)
