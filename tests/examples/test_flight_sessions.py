"""The sessions of the example against sorting each plane's flights and cutting at the rests, over real flights."""

from collections import Counter
from datetime import timedelta
from itertools import pairwise
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pytest

import tidewheel as tw
from examples.parts import nyc_flights
from examples.windows import flight_sessions
from tests.examples.running import DEADLINE_S, epochs, records

REST = timedelta(hours=12)


@pytest.fixture(scope="module")
def days() -> list[pa.Table]:
    """Return the flights of each day."""
    return nyc_flights.departures(days=10)


def run_example(
    days: list[pa.Table], workers: int, rest: timedelta, lateness: timedelta
) -> tuple[list[Any], list[Any]]:
    """Return the sessions, and what was late."""
    flow = tw.Dataflow("sessions")
    windowed = flight_sessions.sessions(flow.source("flights", epochs(days)), rest, lateness)
    windowed.results.capture("results")
    windowed.late.capture("late")
    with tw.run(flow, workers=workers, engine="local") as job:
        job.wait(timeout_s=DEADLINE_S)
        results, late = (records([one.batch for one in job.captured(name)]) for name in ("results", "late"))
    return results, late


def in_one_place(flights: list[dict[str, Any]]) -> list[tuple[str, Any, Any, int]]:
    """Return (plane, first departure, last departure, number of flights) of each session, in order."""
    in_order = sorted(flights, key=itemgetter("plane", "at"))
    found: list[tuple[str, Any, Any, int]] = []
    for before, flight in pairwise([{"plane": None}, *in_order]):
        plane, at = flight["plane"], flight["at"]
        if before["plane"] == plane and at - before["at"] < REST:
            _, first, _, number = found.pop()
            found.append((plane, first, at, number + 1))
        else:
            found.append((plane, at, at, 1))
    return found


@pytest.mark.parametrize("workers", [1, 2])
def test_sessions_equal_those_of_one_place(days: list[pa.Table], workers: int) -> None:
    """Nothing is late by the lateness that the example allows for, and no flight is missing."""
    results, late = run_example(days, workers, REST, flight_sessions.LATENESS)
    assert late == []
    found = [(one.key, one.start, one.end - REST, len(one.value)) for one in results]
    assert sorted(found) == in_one_place(pa.concat_tables(days).to_pylist())
    assert all(one.value == sorted(one.value, key=itemgetter("at")) for one in results)


def test_what_is_late_is_not_lost(days: list[pa.Table]) -> None:
    """Without lateness, flights that left the day after their schedule make others late; each comes out once."""
    results, late = run_example(days, 2, rest=timedelta(hours=1), lateness=timedelta(0))
    assert late
    came = [flight for one in results for flight in one.value] + [one.record for one in late]

    def count(flights: list[dict[str, Any]]) -> Counter[Any]:
        return Counter(tuple(flight[name] for name in sorted(flight)) for flight in flights)

    assert count(came) == count(pa.concat_tables(days).to_pylist())
