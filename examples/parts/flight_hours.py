"""Real flights hour by hour: tables of those planned for each hour, and a folder of files in which Spark finds them."""

import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from examples.parts import nyc_flights

YEAR = datetime(2013, 1, 1)  # noqa: DTZ001 - New York's standard time, all through the year


class Flight(NamedTuple):
    """A flight as planned, and what came of it; times are in minutes, ``planned`` since the year began."""

    planned: int
    carrier: str
    flight: int
    plane: str
    origin: str
    dest: str
    in_the_air: int
    left_late: int
    came_late: int


def flight_hours(begin: datetime, hours: int) -> list[pa.Table]:
    """Return the flights that took off, for each of so many hours from ``begin`` on for which any were planned.

    Columns: as `Flight` has fields.
    """
    flights = nyc_flights.read("flights").filter(pc.is_valid(pc.field("dep_time")) & pc.is_valid(pc.field("tailnum")))
    hour = pc.hours_between(pa.scalar(YEAR + timedelta(hours=5), pa.timestamp("s", "UTC")), flights["time_hour"])
    columns = {
        "planned": pc.add(pc.multiply(hour, 60), flights["minute"]),
        **{name: flights[name] for name in ("carrier", "flight")},
        "plane": flights["tailnum"],
        **{name: flights[name] for name in ("origin", "dest")},
        "in_the_air": pc.fill_null(flights["air_time"], 0),  # of those that came down elsewhere
        "left_late": flights["dep_delay"],
        "came_late": pc.coalesce(flights["arr_delay"], flights["dep_delay"]),
    }
    table = pa.table(columns)
    chosen = pc.unique(hour.filter(pc.greater_equal(hour, hour_of(begin)))).sort()[:hours]
    return [table.filter(pc.equal(hour, one)) for one in chosen]


def hour_of(moment: datetime) -> int:
    """Return how many hours of the year were over."""
    return (moment - YEAR) // timedelta(hours=1)


def write_hours(tables: list[pa.Table], folder: Path) -> None:
    """Write a file for each hour; Spark reads them in the order in which they were modified."""
    folder.mkdir()
    for number, table in enumerate(tables):
        path = folder / f"{number:05}.parquet"
        pq.write_table(table, path)
        os.utime(path, (number, number))
