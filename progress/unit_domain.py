"""The domain with one time, for dataflows that never advance until they end."""

from dataclasses import dataclass

from tidewheel.progress.time_domain import Summary, Time, TimeDomain


@dataclass(frozen=True, slots=True)
class UnitDomain(TimeDomain):
    """One time, the empty tuple, and one summary, which changes nothing.

    >>> UnitDomain().less_equal((), ())
    True
    """

    def minimum(self) -> Time:
        """Return the only time."""
        return ()

    def less_equal(self, a: Time, b: Time) -> bool:
        """Tell that the only time is at or before itself."""
        return True

    def identity(self) -> Summary:
        """Return the only summary."""
        return ()

    def results_in(self, summary: Summary, time: Time) -> Time | None:
        """Return the only time."""
        return ()

    def followed_by(self, first: Summary, then: Summary) -> Summary | None:
        """Return the only summary."""
        return ()

    def summary_less_equal(self, a: Summary, b: Summary) -> bool:
        """Tell that the only summary is at or below itself."""
        return True

    def contains(self, time: Time) -> bool:
        """Tell whether ``time`` is the empty tuple."""
        return bool(time == ())
