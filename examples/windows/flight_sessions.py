"""Sessions of real flights: how long did planes go on to leave New York before they rested for half a day?

Flights come day by day. A session of a plane is a row of departures with less than twelve hours from each to the next;
it is complete, and sent, once departures are known that are so much later that none can be added to it. Delayed flights
leave up to a day after their schedule, which makes a departure the latest one known long before its day is over: so
the windows allow for lateness. What were later still would come out of ``late``.
"""

from datetime import timedelta
from typing import Any

import tidewheel as tw
from examples.parts import nyc_flights
from examples.parts.program import by_epoch, options

REST = timedelta(hours=12)
LATENESS = timedelta(hours=22)


def sessions(flights: tw.Stream[Any], rest: timedelta, lateness: timedelta) -> tw.types.Windowed[Any, list[Any]]:
    """Return the sessions of each plane: ``results`` with lists of flights in order of ``at``, and ``late`` flights."""
    return flights.window(tw.SessionWindows(rest), key="plane", at="at", lateness=lateness)


def main() -> None:
    chosen = options(__doc__)
    days = nyc_flights.departures(days=31)
    flow = tw.Dataflow("flight sessions")
    windowed = sessions(flow.source("flights", tw.IterableSource([list(enumerate(days))])), REST, LATENESS)
    windowed.results.capture("sessions")
    windowed.late.capture("late")
    with tw.run(flow, workers=chosen.workers, engine=chosen.engine) as job:
        job.wait(timeout_s=120)
        found = [session for batches in by_epoch(job, "sessions").values() for batch in batches for session in batch]
        late = sum(len(batch) for batches in by_epoch(job, "late").values() for batch in batches)
    flights = sum(len(session.value) for session in found)
    print(f"{flights:,} flights of January 2013 in {len(found):,} sessions, {late} too late; the longest")
    for session in sorted(found, key=lambda session: (session.start - session.end, session.key))[:5]:
        start, end = (f"{at:%d %B %H:%M}" for at in (session.start, session.end - REST))
        places = " ".join(f"{flight['origin']}-{flight['dest']}" for flight in session.value)
        print(f"{session.key}: {len(session.value)} flights from {start} to {end}: {places}")


if __name__ == "__main__":
    main()
