"""The knowledge of planes and airports about delays: each receives what the other hands on, and learns.

A plane that came late may still be late when it leaves again: the time between both departures, less that for flying
there and back and for turning round twice, is what it has to make up. An airport is as far behind as half of its planes
are, those that leave and those that come, and makes up for some minutes each hour. What it hands on to its planes is
less, by what it absorbs: that it learns, a minute an hour, from whether it has expected too much or too little.
"""

from collections.abc import Sequence

from examples.parts.flight_hours import Flight

TURNING_ROUND = 45
MADE_UP_FOR_IN_AN_HOUR = 10


def as_half(minutes: Sequence[int]) -> int:
    """Return how late at least half of some planes are; two planes are not enough to hold up others."""
    return sorted(minutes, reverse=True)[(len(minutes) - 1) // 2] if len(minutes) > 2 else 0


class Plane:
    """A plane, and how late it is expected to be in this hour."""

    def __init__(self) -> None:
        self.flights: list[Flight] = []
        self.minutes = 0

    def begin(self, flights: list[Flight]) -> None:
        """Begin an hour, in which it has these flights."""
        late = 0
        if self.flights:
            last, next_ = max(self.flights), min(flights)
            spare = next_.planned - last.planned - 2 * (last.in_the_air + TURNING_ROUND)
            late = last.came_late - max(0, spare)
        self.flights, self.minutes = flights, max(0, late)

    def hear(self, _: str, minutes: int) -> None:
        """Take what an airport hands on, or keep what is worse."""
        self.minutes = max(self.minutes, minutes)

    def told(self) -> set[tuple[str, int]]:
        """Return what the airports get to hear."""
        return {(airport, self.minutes) for flight in self.flights for airport in (flight.origin, flight.dest)}


class Airport:
    """An airport, how far behind it is expected to be in this hour, and what it has learned."""

    def __init__(self) -> None:
        self.flights: list[Flight] = []
        self.planes: dict[str, int] = {}
        self.minutes = 0
        self.absorbs = 10

    def begin(self, flights: list[Flight]) -> None:
        """Learn from the hour before, and begin one, in which these flights leave or come."""
        late = 0
        if self.flights:
            differences = [self.planes[flight.plane] - max(0, flight.left_late) for flight in self.flights]
            too_much = sum((minutes > 0) - (minutes < 0) for minutes in differences)
            self.absorbs = max(1, self.absorbs + (too_much > 0) - (too_much < 0))
            hours = flights[0].planned // 60 - self.flights[0].planned // 60
            late = as_half([flight.left_late for flight in self.flights]) - MADE_UP_FOR_IN_AN_HOUR * hours
        self.flights, self.planes = flights, dict.fromkeys((flight.plane for flight in flights), 0)
        self.minutes = max(0, late)

    def hear(self, plane: str, minutes: int) -> None:
        """Take how late a plane is expected to be now."""
        self.planes[plane] = minutes
        self.minutes = max(self.minutes, as_half(list(self.planes.values())))

    def told(self) -> set[tuple[str, int]]:
        """Return what its planes get to hear."""
        return {(plane, self.minutes - self.absorbs) for plane in self.planes}
