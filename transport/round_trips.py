"""The time to wait for an answer before asking again, by how long answers have taken.

Source: Van Jacobson, "Congestion Avoidance and Control" (SIGCOMM 1988), as in RFC 6298.
"""

_GAIN = 1 / 8
_DEVIATION_GAIN = 1 / 4
_DEVIATIONS = 4
_MOST_DOUBLINGS = 10

FIRST_S = 0.2
LEAST_S = 0.02
MOST_S = 5.0


class RoundTrips:
    """What one peer takes to answer.

    Args:
        first_s: how long to wait before anything has been answered, in seconds.
        least_s: the shortest wait.
        most_s: the longest wait.

    >>> trips = RoundTrips(first_s=1.0)
    >>> trips.wait_s(0), trips.wait_s(2)
    (1.0, 4.0)
    >>> trips.learn(0.25)
    >>> trips.wait_s(0)
    0.75
    """

    def __init__(self, first_s: float = FIRST_S, least_s: float = LEAST_S, most_s: float = MOST_S) -> None:
        self._base_s = first_s
        self._least_s = least_s
        self._most_s = most_s
        self._smooth_s: float | None = None
        self._deviation_s = 0.0

    def wait_s(self, in_vain: int) -> float:
        """Return how long to wait, twice as long for each time that it was asked in vain."""
        return float(min(self._most_s, self._base_s * 2 ** min(_MOST_DOUBLINGS, in_vain)))

    def learn(self, took_s: float) -> None:
        """Take one answer into account. What was asked more than once does not count: it is not known when (Karn)."""
        if self._smooth_s is None:
            self._smooth_s, self._deviation_s = took_s, took_s / 2
        else:
            self._deviation_s += _DEVIATION_GAIN * (abs(took_s - self._smooth_s) - self._deviation_s)
            self._smooth_s += _GAIN * (took_s - self._smooth_s)
        self._base_s = min(self._most_s, max(self._least_s, self._smooth_s + _DEVIATIONS * self._deviation_s))
