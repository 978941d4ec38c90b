"""The transitive closure of flights that are added and cancelled: from where to where can you fly at all?"""

import tidewheel as tw
from examples.parts.history import added, removed, show


def reachable(flights: tw.Collection) -> tw.Collection:
    """Return all pairs (from, to) that one flight (from, to) after the other connects."""

    def fly_on(trips: tw.Collection) -> tw.Collection:
        arrivals = trips.map(lambda trip: (trip[1], trip[0]))
        return arrivals.join(flights, lambda stop, start, end: (start, end)).concat(flights).distinct()

    return flights.distinct().iterate(fly_on)


if __name__ == "__main__":
    first = [("LIS", "FRA"), ("FRA", "OSL"), ("OSL", "FRA")]
    show(__doc__, reachable, [added(first), removed([("LIS", "FRA")]), added([("LIS", "OSL")])])
