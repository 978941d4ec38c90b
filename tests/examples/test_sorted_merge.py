"""The departure board of the example against all flights sorted in one place."""

from operator import itemgetter

import pyarrow as pa
import pytest

from examples.parts import nyc_flights
from examples.windows import sorted_merge
from tests.examples.running import captured


@pytest.mark.parametrize("workers", [1, 2])
def test_the_board_is_in_order_of_time(workers: int) -> None:
    """Three airports, hour by hour: one sorted batch for each hour, and the hours one after the other, all flights."""
    flights = pa.concat_tables(nyc_flights.departures(days=3))
    board = captured(lambda flow: sorted_merge.board(flow, sorted_merge.reports_of(flights)), workers)
    assert all(len(batches) == 1 for batches in board.values())
    rows = [row for (table,) in board.values() for row in table.to_pylist()]
    every = flights.to_pylist()
    assert [row["at"] for row in rows] == sorted(row["at"] for row in every)
    by_all = itemgetter("at", "origin", "carrier", "flight", "dest", "plane")
    assert sorted(map(by_all, rows)) == sorted(map(by_all, every))
    assert {row["origin"] for row in rows} == {"EWR", "JFK", "LGA"}
