"""The kinds of time on which the laws are checked: the provided ones, and two that a user could have written.

Each has a small pool of times and of summaries, least first, near the greatest time too where there is one.
"""

from dataclasses import dataclass
from itertools import product

from tidewheel.progress import IntegerDomain, Nesting, ProductDomain, Summary, Time, TimeDomain, UnitDomain


@dataclass(frozen=True, slots=True)
class Bitemporal:
    """The day from which a fact holds, and the day on which it was recorded."""

    valid: int
    recorded: int


@dataclass(frozen=True, slots=True)
class BitemporalDomain(TimeDomain):
    """Days up to ``last_day``; one time is at or before another when both its days are; a summary delays both."""

    last_day: int = 10**6

    def minimum(self) -> Time:
        return Bitemporal(0, 0)

    def less_equal(self, a: Time, b: Time) -> bool:
        return bool(a.valid <= b.valid and a.recorded <= b.recorded)

    def identity(self) -> Summary:
        return Bitemporal(0, 0)

    def results_in(self, summary: Summary, time: Time) -> Time | None:
        result = Bitemporal(time.valid + summary.valid, time.recorded + summary.recorded)
        return result if self.contains(result) else None

    def followed_by(self, first: Summary, then: Summary) -> Summary | None:
        return self.results_in(then, first)

    def summary_less_equal(self, a: Summary, b: Summary) -> bool:
        return self.less_equal(a, b)

    def contains(self, time: Time) -> bool:
        return isinstance(time, Bitemporal) and 0 <= time.valid <= self.last_day and 0 <= time.recorded <= self.last_day


@dataclass(frozen=True, slots=True)
class VectorClockDomain(TimeDomain):
    """One counter for each of ``processes``, compared one by one; a summary counts events of each process."""

    processes: int

    def minimum(self) -> Time:
        return (0,) * self.processes

    def less_equal(self, a: Time, b: Time) -> bool:
        return all(x <= y for x, y in zip(a, b, strict=True))

    def identity(self) -> Summary:
        return (0,) * self.processes

    def results_in(self, summary: Summary, time: Time) -> Time | None:
        return tuple(count + events for count, events in zip(time, summary, strict=True))

    def followed_by(self, first: Summary, then: Summary) -> Summary | None:
        return self.results_in(then, first)

    def summary_less_equal(self, a: Summary, b: Summary) -> bool:
        return self.less_equal(a, b)

    def contains(self, time: Time) -> bool:
        return (
            isinstance(time, tuple)
            and len(time) == self.processes
            and all(isinstance(count, int) and count >= 0 for count in time)
        )


INTEGERS = IntegerDomain()
FEW_INTEGERS = IntegerDomain(maximum=3)
UNIT = UnitDomain()
BITEMPORAL = BitemporalDomain()
VECTOR_CLOCK = VectorClockDomain(processes=2)

DOMAINS: dict[str, TimeDomain] = {
    "integers": INTEGERS,
    "few integers": FEW_INTEGERS,
    "unit": UNIT,
    "bitemporal": BITEMPORAL,
    "few days": BitemporalDomain(last_day=2),
    "vector clock": VECTOR_CLOCK,
    "product": ProductDomain(INTEGERS, INTEGERS),
    "product with few": ProductDomain(VECTOR_CLOCK, FEW_INTEGERS),
    "product of product": ProductDomain(ProductDomain(INTEGERS, FEW_INTEGERS), UNIT),
    "product with product": ProductDomain(BITEMPORAL, ProductDomain(FEW_INTEGERS, INTEGERS)),
}
"""Every domain on which the laws of `TimeDomain` are checked."""


def time_pool(domain: TimeDomain) -> tuple[Time, ...]:
    """Return a few times of ``domain``, the minimum first, the greatest too if there is one."""
    match domain:
        case IntegerDomain(maximum):
            return tuple(sorted({0, 1, 2, 3, maximum - 1, maximum}))
        case UnitDomain():
            return ((),)
        case ProductDomain(outer, inner):
            return tuple(product(time_pool(outer), time_pool(inner)))
        case BitemporalDomain(last_day):
            return tuple(Bitemporal(a, b) for a, b in product(sorted({0, 1, 2, last_day}), repeat=2))
        case VectorClockDomain(processes):
            return tuple(product((0, 1, 2, 9), repeat=processes))
    raise NotImplementedError(f"no pool of times for {domain}")


def summary_pool(domain: TimeDomain) -> tuple[Summary, ...]:
    """Return a few summaries of ``domain``, the identity first; some let no time pass but the first ones."""
    match domain:
        case ProductDomain(outer, inner):
            return tuple(product(summary_pool(outer), summary_pool(inner)))
    return time_pool(domain)  # these domains write a summary as they write a time: it is what is added


def small_summaries(domain: TimeDomain) -> tuple[Summary, ...]:
    """Return a few summaries of ``domain`` that are far from its greatest time, the identity first."""
    match domain:
        case IntegerDomain():
            return (0, 1, 2)
        case UnitDomain():
            return ((),)
        case ProductDomain(outer, inner):
            return tuple(product(small_summaries(outer), small_summaries(inner)))
        case BitemporalDomain():
            return (Bitemporal(0, 0), Bitemporal(1, 0), Bitemporal(0, 1), Bitemporal(2, 1))
        case VectorClockDomain(processes):
            return tuple(product((0, 1), repeat=processes))
    raise NotImplementedError(f"no small summaries for {domain}")


def small_times(domain: TimeDomain) -> tuple[Time, ...]:
    """Return a few times of ``domain`` that are far from the greatest, the minimum first."""
    return tuple(domain.results_in(summary, domain.minimum()) for summary in small_summaries(domain))


def far_time(domain: TimeDomain) -> Time:
    """Return a time later than any that a few small summaries reach from the minimum."""
    match domain:
        case IntegerDomain(maximum):
            return min(1000, maximum)
        case UnitDomain():
            return ()
        case ProductDomain(outer, inner):
            return (far_time(outer), far_time(inner))
        case BitemporalDomain(last_day):
            return Bitemporal(min(1000, last_day), min(1000, last_day))
        case VectorClockDomain(processes):
            return (1000,) * processes
    raise NotImplementedError(f"no far time for {domain}")


def probing_times(nesting: Nesting) -> tuple[Time, Time]:
    """Return two times that tell any two summaries of small advances apart: the minimum, and a far one.

    Coordinates travel independently, and what happens to one is either an advance or a constant. Two advances compare
    alike everywhere; an advance and a constant compare one way at the minimum and the other way far out.
    """
    return nesting.domain.minimum(), far_time(nesting.domain)
