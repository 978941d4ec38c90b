"""One departure board for three airports: streams that are each in some order, merged into one in order of time.

Each airport reports its departures hour by hour, and at its own pace. An hour of the board is complete when all three
have reported it, which is what the frontier says; its flights come out sorted, and hours come one after the other.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import tidewheel as tw
from examples.parts import nyc_flights
from examples.parts.program import by_epoch, options

AIRPORTS = ("EWR", "JFK", "LGA")


def board(flow: tw.Dataflow, reports: dict[str, list[tuple[int, pa.Table]]]) -> tw.Stream[Any]:
    """Return the departures of all airports in order of ``at``, given what each reports, by hour."""
    first, *others = [flow.source(airport, tw.IterableSource([hours])) for airport, hours in reports.items()]
    return first.merge(*others, by="at")


def reports_of(flights: pa.Table) -> dict[str, list[tuple[int, pa.Table]]]:
    """Return what each airport reports: for each hour that has any, counted from the first one, its departures."""
    hours = pc.hours_between(pc.floor_temporal(pc.min(flights["at"]), unit="hour"), flights["at"])
    flights = flights.append_column("hour", hours)
    return {airport: by_hour(flights.filter(pc.field("origin") == airport)) for airport in AIRPORTS}


def by_hour(flights: pa.Table) -> list[tuple[int, pa.Table]]:
    """Return tables with the flights of one hour each, and the hour."""
    hours = pc.unique(flights["hour"]).sort().to_pylist()
    return [(hour, flights.filter(pc.field("hour") == hour).drop_columns(["hour"])) for hour in hours]


def main() -> None:
    chosen = options(__doc__)
    flights = pa.concat_tables(nyc_flights.departures(days=7))
    flow = tw.Dataflow("departure board")
    board(flow, reports_of(flights)).capture("board")
    with tw.run(flow, workers=chosen.workers, engine=chosen.engine) as job:
        job.wait(timeout_s=60)
        hours = by_epoch(job, "board")
    for flight in next(iter(hours.values()))[0].slice(0, 12).to_pylist():
        print(
            f"{flight['at']:%a %H:%M}  {flight['origin']} to {flight['dest']}  {flight['carrier']} {flight['flight']}"
        )
    times = pa.concat_tables(table for tables in hours.values() for table in tables)["at"].to_numpy()
    in_order = bool((times[1:] >= times[:-1]).all())
    print(f"... {len(times):,} departures in {len(hours)} hours, in order of time: {in_order}")


if __name__ == "__main__":
    main()
