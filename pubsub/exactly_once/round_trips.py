"""The time to wait for an answer before asking again, derived from the times that answers have taken.

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
    """The time that one peer takes to answer.

    >>> trips = RoundTrips()
    >>> trips.wait_s(0), trips.wait_s(2)
    (0.2, 0.8)
    >>> trips.learn(0.25)
    >>> trips.wait_s(0)
    0.75
    """

    def __init__(self) -> None:
        self._base_s = FIRST_S
        self._smooth_s: float | None = None
        self._deviation_s = 0.0

    def wait_s(self, in_vain: int) -> float:
        """Return the seconds to wait for an answer, doubled after each unanswered question."""
        return float(min(MOST_S, self._base_s * 2 ** min(_MOST_DOUBLINGS, in_vain)))

    def learn(self, took_s: float) -> None:
        """Learn from an answer to a question that was asked only once (Karn's rule)."""
        if self._smooth_s is None:
            self._smooth_s, self._deviation_s = took_s, took_s / 2
        else:
            self._deviation_s += _DEVIATION_GAIN * (abs(took_s - self._smooth_s) - self._deviation_s)
            self._smooth_s += _GAIN * (took_s - self._smooth_s)
        self._base_s = min(MOST_S, max(LEAST_S, self._smooth_s + _DEVIATIONS * self._deviation_s))
