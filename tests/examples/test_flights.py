"""The delays of the example against working out hour after hour in one place, and its pipeline through Spark."""

import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.parts import nyc_flights
from examples.parts.delay_propagation import expected
from examples.parts.flight_hours import Flight, flight_hours
from tests.examples.running import captured, columns, epochs
from tests.examples.test_programs import run_program

BEGIN = datetime(2013, 3, 8)  # noqa: DTZ001 - as the example has it
LATE = 15
TURNING_ROUND, MADE_UP_FOR, ABSORBED = 45, 10, 10


class Reference:
    """The same delays by plain sweeps over the flights of an hour, whatever is found first, until nothing changes."""

    def __init__(self) -> None:
        self.last: dict[str, Flight] = {}
        self.left: dict[str, tuple[int, int]] = {}
        self.absorbs: Counter[str] = Counter()
        self.sweeps: list[int] = []

    def hour(self, flights: list[Flight]) -> dict[Flight, int]:
        """Return how late each flight is expected to leave, and then take in what happened."""
        hour = flights[0].planned // 60
        planes = {flight.plane: 0 for flight in flights}
        for flight in flights:
            planes[flight.plane] = max(planes[flight.plane], self.carried(flight))
        ports: dict[str, list[Flight]] = {}
        for flight in flights:
            for port in {flight.origin, flight.dest}:
                ports.setdefault(port, []).append(flight)
        behind = {}
        for port in ports:
            minutes, when = self.left.get(port, (0, 0))
            behind[port] = max(0, minutes - MADE_UP_FOR * (hour - when))
        self.sweep(ports, planes, behind)
        self.learn(hour, ports, planes)
        self.last |= {flight.plane: flight for flight in sorted(flights)}
        return {flight: planes[flight.plane] for flight in flights}

    def carried(self, flight: Flight) -> int:
        """Return how late a plane still is that came late."""
        last = self.last.get(flight.plane)
        if last is None:
            return 0
        return last.came_late - max(0, flight.planned - last.planned - 2 * last.in_the_air - 2 * TURNING_ROUND)

    def sweep(self, ports: dict[str, list[Flight]], planes: dict[str, int], behind: dict[str, int]) -> None:
        """Raise what is expected of planes and airports until it fits together."""
        before: Any = None
        self.sweeps.append(0)
        while before != (planes, behind):
            before = dict(planes), dict(behind)
            self.sweeps[-1] += 1
            for port, flights in reversed(ports.items()):
                here = {flight.plane for flight in flights}
                behind[port] = max(behind[port], of_half(planes[plane] for plane in here))
                for plane in here:
                    planes[plane] = max(planes[plane], behind[port] - ABSORBED - self.absorbs[port])

    def learn(self, hour: int, ports: dict[str, list[Flight]], planes: dict[str, int]) -> None:
        """Compare what was expected at each airport with what was."""
        for port, flights in ports.items():
            more = sum(planes[flight.plane] > max(0, flight.left_late) for flight in flights)
            less = sum(planes[flight.plane] < max(0, flight.left_late) for flight in flights)
            self.absorbs[port] = max(1 - ABSORBED, self.absorbs[port] + (more > less) - (more < less))
            self.left[port] = of_half(flight.left_late for flight in flights), hour


def of_half(minutes: Iterable[int]) -> int:
    """Return the most minutes that half of three or more are late."""
    late = list(minutes)
    reached = [one for one in late if 2 * sum(other >= one for other in late) >= len(late)]
    return max(reached) if len(late) >= 3 else 0


def table(flights: list[Flight]) -> pa.Table:
    kinds = {name: pa.string() if kind is str else pa.int64() for name, kind in Flight.__annotations__.items()}
    return pa.Table.from_pylist([flight._asdict() for flight in flights], pa.schema(kinds))


def check(hours: list[pa.Table], workers: int) -> list[int]:
    """Compare what is expected of each flight in each hour; return how many sweeps those took in one place."""
    found = captured(lambda flow: expected(flow.source("flights", epochs(hours))), workers)
    reference = Reference()
    for epoch, flights in enumerate(hours):
        answers = columns(found.get(epoch, []), *Flight._fields, "expected")
        there = [Flight(**row) for row in flights.to_pylist()]
        assert sorted(answers) == sorted((*one, late) for one, late in reference.hour(there).items()), f"hour {epoch}"
    return reference.sweeps


WORKERS = pytest.mark.parametrize("workers", [1, 2, pytest.param(3, marks=pytest.mark.long)])

_minutes = st.sampled_from([-5, 0, 0, 12, 40, 90, 300])
_flight = st.tuples(
    st.integers(0, 59), st.integers(0, 9), st.sampled_from("ABC"), st.integers(0, 4), _minutes, _minutes
)


@WORKERS
@settings(max_examples=40)
@given(found=st.lists(st.tuples(st.integers(0, 9), _flight), min_size=1, max_size=60))
def test_any_hours_come_to_the_same_rest(workers: int, found: list[tuple[int, Any]]) -> None:
    """Whoever is late, planes that fly twice an hour among them: who says what first makes no difference."""
    flights: dict[int, list[Flight]] = {}
    for number, (hour, (minute, plane, origin, dest, left, came)) in enumerate(found):
        flight = Flight(60 * hour + minute, "XX", number, f"N{plane}", origin, f"to {dest}", 20, left, came)
        flights.setdefault(hour, []).append(flight)
    check([table(flights[hour]) for hour in sorted(flights)], workers)


@WORKERS
def test_two_real_days(workers: int) -> None:
    """A day of snow and the next, hour by hour, in which delays do go on from plane to airport to plane."""
    sweeps = check(flight_hours(BEGIN, 38), workers)
    assert max(sweeps) > 2


@WORKERS
def test_a_delay_goes_as_far_as_it_lasts(workers: int) -> None:
    """Along a chain of airports, with two planes between neighbours, each of which absorbs ten minutes of it."""
    hours = [
        [
            Flight(60 * hour, "XX", plane, f"N{plane}", f"A{plane // 2}", f"A{plane // 2 + 1}", 0, 0, 100 * (plane < 2))
            for plane in range(30)
        ]
        for hour in range(2)
    ]
    found = captured(lambda flow: expected(flow.source("flights", epochs([table(hour) for hour in hours]))), workers)
    assert dict(columns(found[1], "flight", "expected")) == {n: max(0, 100 - 10 * (n // 2)) for n in range(30)}
    assert set(columns(found[0], "expected")) == {(0,)}


def test_hours_have_all_flights() -> None:
    """Those that took off on the day of the example, each in the hour for which it was planned."""
    hours = flight_hours(BEGIN, 19)
    assert sum(hour.num_rows for hour in hours) == 799
    begun = [{planned // 60 for planned in hour["planned"].to_pylist()} for hour in hours]
    assert begun == [{66 * 24 + hour} for hour in range(5, 24)]


@pytest.mark.spark
@pytest.mark.long
def test_through_spark_and_back(ray_cluster: str) -> None:
    """As users run it: what is read live and what Spark has joined are as in one place, and nothing is left behind."""
    with tempfile.TemporaryDirectory() as folder:
        said = run_program("flights", "--hours", "5", RAY_ADDRESS=ray_cluster, TMPDIR=folder)
        assert list(Path(folder).iterdir()) == []
    reference = Reference()
    hours = [reference.hour([Flight(**row) for row in hour.to_pylist()]) for hour in flight_hours(BEGIN, 5)]
    live = re.findall(
        r"8 March (.*):00 +(.*) flights: +(.*) expected .* by +(.*) minutes .*; +(.*) were, +(.*) of", said
    )
    counted = [(hour, *count(flights), sum(flights.values())) for hour, flights in enumerate(hours, start=5)]
    told = [[int(number.replace(",", "")) for number in line] for line in live]
    assert [(hour, all_, late, soon, both, minutes) for hour, all_, soon, minutes, late, both in told] == counted
    day = {flight: minutes for flights in hours for flight, minutes in flights.items()}
    rows = re.findall(r"^\|(.+?) *" + r"\|(\d+) *" * 4 + r"\|$", said, re.MULTILINE)
    assert [(name, *map(int, numbers)) for name, *numbers in rows] == most_late(day)


def count(flights: dict[Flight, int]) -> tuple[int, int, int, int]:
    """Return how many flights there are, were late, were expected to be, and both."""
    late = [(flight.left_late >= LATE, minutes >= LATE) for flight, minutes in flights.items()]
    return (
        len(late),
        sum(was for was, _ in late),
        sum(soon for _, soon in late),
        sum(was and soon for was, soon in late),
    )


def most_late(flights: dict[Flight, int]) -> list[tuple[Any, ...]]:
    """Return the rows of all three tables that the example shows."""
    airlines = {row["carrier"]: row["name"] for row in nyc_flights.read("airlines").to_pylist()}
    airports = {row["faa"]: row["name"] for row in nyc_flights.read("airports").to_pylist()}
    planes = {row["tailnum"]: f"{row['manufacturer']} {row['model']}" for row in nyc_flights.read("planes").to_pylist()}
    shown: list[tuple[Any, ...]] = []
    for name_of in (
        lambda flight: airlines[flight.carrier],
        lambda flight: airports.get(flight.dest, flight.dest),
        lambda flight: planes.get(flight.plane, "not known"),
    ):
        named: dict[str, dict[Flight, int]] = {}
        for flight, minutes in flights.items():
            named.setdefault(name_of(flight), {})[flight] = minutes
        rows = [(name, *count(its)) for name, its in named.items()]
        shown += sorted(rows, key=lambda row: (-row[2], row[0]))[:4]
    return shown
