"""Shortest paths in a city whose roads close and open: how many minutes each place is from where you start."""

import tidewheel as tw
from examples.parts.history import added, removed, show


def distances(roads: tw.Collection, starts: tw.Collection) -> tw.Collection:
    """Return pairs (place, minutes) for roads (place, (next place, minutes)) and starts (place, 0)."""

    def drive(reached: tw.Collection) -> tw.Collection:
        offers = reached.join(roads, lambda place, minutes, road: (road[0], minutes + road[1]))
        return offers.concat(starts).reduce_min()

    return starts.iterate(drive)


if __name__ == "__main__":
    city = [("home", ("park", 5)), ("park", ("work", 4)), ("home", ("work", 12))]
    closed = [("park", ("work", 4))]
    show(__doc__, distances, [added(city), removed(closed), added(closed)], [added([("home", 0)])])
