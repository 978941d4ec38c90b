"""The place of a location among nested scopes, which decides the domain of its times.

The graph of a dataflow is flat; a scope only adds a coordinate. A location at depth ``d`` has times
``((outermost, c1), ...), cd)``: the outermost scope's own time, paired with one coordinate for each scope around it.
"""

from dataclasses import dataclass, field

from tidewheel.progress.integer_domain import IntegerDomain
from tidewheel.progress.product_domain import ProductDomain
from tidewheel.progress.time_domain import Time, TimeDomain


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
        """Return the nesting one scope further out; the depth must not be 0."""
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
