"""The change of times along a path between two locations, across nested scopes.

The graph of a dataflow is flat; a scope only adds a coordinate. A location at depth ``d`` has times ``((outermost, c1),
...), cd)``: the outermost time, paired with one coordinate for each scope.

A path keeps the outermost coordinates, each advanced by a summary of its domain. It drops the coordinates of scopes
that it leaves, and appends fixed values for scopes that it enters. Two such paths in a row are again such a path, so
one flat graph serves any depth of nesting.

Source: Murray et al., "Naiad: a timely dataflow system", SOSP 2013, section 2.3; seed "Progress Tracking", section
"Path Summaries".
"""

from dataclasses import dataclass, field

from tidewheel.progress.time_domain import IntegerDomain, ProductDomain, Summary, Time, TimeDomain


@dataclass(frozen=True, slots=True)
class Nesting:
    """The domains of a location's coordinates, outermost first; never empty.

    >>> loop = Nesting((IntegerDomain(),)).inside(IntegerDomain())
    >>> loop.depth, loop.domain.minimum(), loop.coordinates((4, 2))
    (1, (0, 0), (4, 2))
    """

    coordinate_domains: tuple[TimeDomain, ...]
    domain: TimeDomain = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        domain = self.coordinate_domains[0]
        for inner in self.coordinate_domains[1:]:
            domain = ProductDomain(domain, inner)
        object.__setattr__(self, "domain", domain)

    @property
    def depth(self) -> int:
        """The number of scopes around a location; 0 outside every loop."""
        return len(self.coordinate_domains) - 1

    def inside(self, coordinate: TimeDomain) -> "Nesting":
        """Return the nesting one scope further in."""
        return Nesting((*self.coordinate_domains, coordinate))

    def outside(self) -> "Nesting":
        """Return the nesting one scope further out; the depth is not 0."""
        return Nesting(self.coordinate_domains[:-1])

    def coordinates(self, time: Time) -> tuple[Time, ...]:
        """Split a time of this nesting into its coordinates, outermost first."""
        inner = []
        for _ in range(self.depth):
            time, coordinate = time
            inner.append(coordinate)
        return (time, *reversed(inner))

    @staticmethod
    def time(coordinates: tuple[Time, ...]) -> Time:
        """Join coordinates, outermost first, into a time."""
        time = coordinates[0]
        for coordinate in coordinates[1:]:
            time = (time, coordinate)
        return time


ROOT = Nesting((IntegerDomain(),))
"""The nesting of a dataflow whose epochs are integers."""


@dataclass(frozen=True, slots=True)
class PathSummary:
    """The change of times from a location of nesting ``source`` to one of nesting ``target``.

    ``advances`` has a summary for each kept coordinate, at least one; ``appended`` has the value of each appended
    coordinate. Kept coordinates have the same domains at both ends.

    >>> from tidewheel.progress import ROOT, IntegerDomain
    >>> loop = ROOT.inside(IntegerDomain())
    >>> once_around = PathSummary.enter(loop).followed_by(PathSummary.advance(loop, 1))
    >>> once_around.results_in(7)
    (7, 1)
    >>> once_around.followed_by(PathSummary.leave(loop)).results_in(7)
    7
    """

    source: Nesting
    target: Nesting
    advances: tuple[Summary, ...]
    appended: tuple[Time, ...] = ()
    is_identity: bool = field(init=False, compare=False, repr=False)
    _is_round: bool = field(init=False, compare=False, repr=False)
    """Whether only the innermost of several coordinates changes, as on most paths round a loop."""
    _dropped: int = field(init=False, compare=False, repr=False)
    """The number of innermost coordinates that the summary drops."""
    _advancing: tuple[tuple[TimeDomain, Summary], ...] = field(init=False, compare=False, repr=False)
    """The domains and summaries of the kept coordinates, from the innermost to the outermost that the path advances.

    The outermost coordinate of all is left out.
    """
    _advances_outermost: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        domains = self.source.coordinate_domains
        kept = list(zip(domains, self.advances, strict=False))
        first = next((at for at, (domain, one) in enumerate(kept) if one != domain.identity()), len(kept))
        object.__setattr__(self, "is_identity", not self.appended and first == len(kept) == len(domains))
        is_round = first == len(kept) - 1 > 0 and len(kept) == len(domains) and not self.appended
        object.__setattr__(self, "_is_round", is_round)
        object.__setattr__(self, "_dropped", len(domains) - len(kept))
        object.__setattr__(self, "_advancing", tuple(kept[: max(first, 1) - 1 : -1]))
        object.__setattr__(self, "_advances_outermost", first == 0)

    @classmethod
    def identity(cls, nesting: Nesting) -> "PathSummary":
        """Return the summary of a path that changes no time."""
        return cls(nesting, nesting, tuple(domain.identity() for domain in nesting.coordinate_domains))

    @classmethod
    def enter(cls, inner: Nesting) -> "PathSummary":
        """Return the summary of entering ``inner``: its coordinate is appended at the minimum."""
        outer = inner.outside()
        return cls(outer, inner, cls.identity(outer).advances, (inner.coordinate_domains[-1].minimum(),))

    @classmethod
    def leave(cls, inner: Nesting) -> "PathSummary":
        """Return the summary of leaving ``inner``: its coordinate is dropped."""
        outer = inner.outside()
        return cls(inner, outer, cls.identity(outer).advances)

    @classmethod
    def advance(cls, nesting: Nesting, summary: Summary) -> "PathSummary":
        """Return the summary of a path that advances the innermost coordinate."""
        return cls(nesting, nesting, (*cls.identity(nesting).advances[:-1], summary))

    def results_in(self, time: Time) -> Time | None:
        """Return the least time at which ``time`` can arrive at the path's end; None if it cannot.

        Complexity: the number of coordinates that change; O(1) for a path that changes nothing.
        """
        if self.is_identity:
            return time
        if self._is_round:
            arrival = self.source.coordinate_domains[-1].results_in(self.advances[-1], time[1])
            return None if arrival is None else (time[0], arrival)
        for _ in range(self._dropped):
            time = time[0]
        if self._advancing or self._advances_outermost:
            time = self._advanced(time)
            if time is None:
                return None
        for coordinate in self.appended:
            time = (time, coordinate)
        return time

    def _advanced(self, time: Time) -> Time | None:
        """Return a time of the kept coordinates, advanced. Pairs of outer coordinates that do not change are reused."""
        inner: list[Time] = []
        for domain, advance in self._advancing:
            time, coordinate = time
            arrival = domain.results_in(advance, coordinate)
            if arrival is None:
                return None
            inner.append(arrival)
        if self._advances_outermost:
            time = self.source.coordinate_domains[0].results_in(self.advances[0], time)
            if time is None:
                return None
        for arrival in reversed(inner):
            time = (time, arrival)
        return time

    def followed_by(self, then: "PathSummary") -> "PathSummary | None":
        """Return the summary of this path followed by ``then``, which starts where this path ends.

        None if no time passes both.
        """
        if then.source is not self.target and then.source != self.target:
            raise ValueError(f"a path to {self.target} cannot be followed by one from {then.source}")
        if then.is_identity:
            return self
        if self.is_identity:
            return then
        domains = self.target.coordinate_domains
        kept = len(self.advances)
        advances = [
            domain.followed_by(first, second)
            for domain, first, second in zip(domains, self.advances, then.advances, strict=False)
        ]
        appended = [
            domain.results_in(summary, time)
            for domain, summary, time in zip(domains[kept:], then.advances[kept:], self.appended, strict=False)
        ]
        if any(value is None for value in (*advances, *appended)):
            return None
        return PathSummary(self.source, then.target, tuple(advances), (*appended, *then.appended))

    def describe(self) -> str:
        """Describe the change in words, such as ``(t, r) becomes t`` or ``unchanged``.

        >>> from tidewheel.progress import ROOT, IntegerDomain
        >>> loop = ROOT.inside(IntegerDomain())
        >>> PathSummary.advance(loop, 2).describe(), PathSummary.leave(loop).describe()
        ('(t, r) becomes (t, r + 2)', '(t, r) becomes t')
        """
        if self.is_identity:
            return "unchanged"
        names = ["t", *(f"r{depth}" if depth > 1 else "r" for depth in range(1, self.source.depth + 1))]
        arrives = [
            name if advance == domain.identity() else f"{name} + {advance!r}"
            for name, domain, advance in zip(names, self.source.coordinate_domains, self.advances, strict=False)
        ]
        arrives += [repr(time) for time in self.appended]
        return f"{_nested(names)} becomes {_nested(arrives)}"

    def less_equal(self, other: "PathSummary") -> bool:
        """Tell whether every time arrives by this path no later than by ``other``, which has the same ends.

        The answer may be a wrong False if it depends on the greatest time of a domain. Minimal summaries then keep one
        element too many, which is harmless.
        """
        if self is other:
            return True
        domains = self.target.coordinate_domains
        return all(self._coordinate_less_equal(other, domains[index], index) for index in range(len(domains)))

    def _coordinate_less_equal(self, other: "PathSummary", domain: TimeDomain, index: int) -> bool:
        kept, other_kept = len(self.advances), len(other.advances)
        if index < kept and index < other_kept:
            return domain.summary_less_equal(self.advances[index], other.advances[index])
        if index < kept:
            return False
        mine = self.appended[index - kept]
        if index >= other_kept:
            return domain.less_equal(mine, other.appended[index - other_kept])
        least = domain.results_in(other.advances[index], domain.minimum())
        return least is None or domain.less_equal(mine, least)

    def refusal(self) -> str | None:
        """Return how this path can decrease a time, as the reason to refuse it; None if it never does.

        The change of each kept coordinate must be at or above the identity of its domain.

        Source: seed "Progress Tracking", section "Path Summaries" (``results_in`` may only advance times).
        """
        for domain, advance in zip(self.source.coordinate_domains, self.advances, strict=False):
            least = domain.identity()
            try:
                goes_on = domain.summary_less_equal(least, advance)
                arrival = domain.results_in(advance, domain.minimum())
            except (AttributeError, TypeError) as error:
                return f"has {advance!r}, which is no summary of {domain!r} as {least!r} is: {error}"
            if not goes_on:
                return f"goes back in time: an operator only advances times, and {advance!r} is not {least!r} or more"
            if arrival is not None and not domain.contains(arrival):
                return f"makes of {domain.minimum()!r} what is no time: times are {domain.describe()}, not {arrival!r}"
        for domain, time in zip(self.target.coordinate_domains[len(self.advances) :], self.appended, strict=False):
            if not domain.contains(time):
                return f"appends what is no time: times are {domain.describe()}, not {time!r}"
        return None

    def strictly_advances(self, coordinates: int | None = None) -> bool:
        """Tell whether a cycle with this summary brings every time back strictly later.

        Args:
            coordinates: how many of the outermost coordinates to check; by default all that the path keeps.
        """
        if self.is_identity:
            return False
        return any(
            not domain.summary_less_equal(summary, domain.identity())
            for domain, summary in zip(self.source.coordinate_domains, self.advances[:coordinates], strict=False)
        )


def _nested(coordinates: list[str]) -> str:
    text = coordinates[0]
    for coordinate in coordinates[1:]:
        text = f"({text}, {coordinate})"
    return text
