"""Delays that planes and airports hand on to each other, found by going round a loop until nothing changes.

Flights come hour by hour, each with what came of it. Before that is looked at, planes and airports say what earlier
hours have left behind; a late plane tells the airports that it flies between, an airport that is behind tells all of
its planes, and whoever expects more than before tells it again. Minutes only grow, and never above the worst that
somebody began with: so each hour comes to rest, at the least minutes that fit together, whoever speaks first.
"""

from collections import defaultdict
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa

import tidewheel as tw
from examples.parts.delay_nodes import Airport, Plane
from examples.parts.flight_hours import Flight
from examples.parts.rounds import Round, go_round

Visit: TypeAlias = tuple[str, type[Plane | Airport], Flight]
"""The name of a plane or an airport, which of both it is, and a flight that it has part in."""

Word: TypeAlias = tuple[str, str, int]
"""The plane or airport that is told, the one that tells it, and the minutes."""

EXPECTED = pa.schema(
    {name: pa.string() if kind is str else pa.int64() for name, kind in Flight.__annotations__.items()}
    | {"expected": pa.int64()}
)


def expected(flights: tw.Stream[Any]) -> tw.Stream[Any]:
    """Return tables of the flights of each epoch, an hour, with the column ``expected``: how late each might leave."""
    visits = flights.map(lambda row: Flight(**row)).flat_map(visits_of)
    said = go_round(visits, "hand on", DelayShare, [lambda visit: visit[0], lambda word: word[0]])
    # Each expectation of a plane is greater than the one before, so the last of an hour is the greatest.
    return said.group_by(*Flight._fields).aggregate(expected=("expected", "max"))


def visits_of(flight: Flight) -> list[Visit]:
    """Return the flight for its plane, and for the airports on both ends."""
    return [(flight.plane, Plane, flight), (flight.origin, Airport, flight), (flight.dest, Airport, flight)]


class DelayShare:
    """The planes and airports that one worker owns."""

    def __init__(self) -> None:
        self.nodes: dict[str, Plane | Airport] = {}

    def work(self, _: int, entered: list[list[Visit]], returned: list[list[Word]]) -> Round:
        """Begin an hour, or hear what others say; say what is new."""
        flights: dict[str, list[Flight]] = defaultdict(list)
        for name, kind, flight in chain(*entered):
            self.nodes.setdefault(name, kind())
            flights[name].append(flight)
        for name, its_flights in flights.items():
            self.nodes[name].begin(its_flights)
        before = {name: self.nodes[name].minutes for name, _, _ in chain(*returned)}
        for name, who, minutes in chain(*returned):
            self.nodes[name].hear(who, minutes)
        worse = [name for name, minutes in before.items() if self.nodes[name].minutes > minutes]
        new = {name: self.nodes[name] for name in chain(flights, worse)}
        words = [(other, name, minutes) for name, node in new.items() for other, minutes in node.told() if minutes > 0]
        planes = [node for node in new.values() if isinstance(node, Plane)]
        rows = [flight._asdict() | {"expected": plane.minutes} for plane in planes for flight in plane.flights]
        return Round([(1, words)], pa.Table.from_pylist(rows, EXPECTED))
