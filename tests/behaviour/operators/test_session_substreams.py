"""Sessions as substreams: what is computed from the records of a session window is complete when all of it has come."""

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.behaviour.operators.test_substreams import assert_nothing_left
from tests.behaviour.operators.test_window import epochs
from tests.kit.operators.harness import DEADLINE_S, operator_settings
from tests.kit.operators.window_oracle import Event


def _go_round(laps: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
    moved = laps.exchange(lambda lap: sum(lap[1:])).map(lambda lap: (lap[0], lap[1], lap[2] - 1))
    return moved.filter(lambda lap: lap[2] > 0), moved.filter(lambda lap: lap[2] == 0)


def _laps(events: tw.Stream[Any]) -> tw.Stream[Any]:
    return events.map(lambda e: (e, e.number, e.number % 4 + 1)).iterate(_go_round).map(lambda lap: lap[0])


WAYS: dict[str, Callable[[tw.Stream[Any]], tw.Stream[Any]]] = {
    "straight": lambda events: events,
    "to another worker": lambda events: events.exchange(lambda e: e.number),
    "round a loop": _laps,
}
"""The ways of records to the operator that tells what belongs together."""


@operator_settings(100)
@given(
    epochs(),
    st.integers(1, 16),
    st.integers(0, 8),
    st.integers(1, 3),
    st.sampled_from(list(WAYS)),
    st.sampled_from([None, 10**6]),
)
def test_what_is_made_of_a_session_is_one_substream(
    given_epochs: dict[int, list[Event]], gap: int, lateness: int, workers: int, way: str, flush_at: int | None
) -> None:
    """On any number of workers and wherever its records go; in the end nothing is kept."""
    flow = tw.Dataflow("sessions")
    sessions = flow.input("events").window(
        tw.SessionWindows(gap),
        key=lambda e: e.key,
        at=lambda e: e.at,
        lateness=lateness,
        flush_at=flush_at,
    )
    sessions.late.ignore()
    sessions.results.map(lambda one: (one.key, one.start, sorted(one.value))).capture("sessions")
    divided = sessions.results.substreams("sessions", lambda one: (one.key, one.start), last=lambda one: True)
    events = WAYS[way](divided.flat_map(lambda one: one.value))
    events.collect_substream(lambda key, events: (*key, sorted(events))).capture("substreams")
    with tw.run(flow, workers=workers, engine="local") as job:
        with job.input("events") as handle:
            for epoch, found in given_epochs.items():
                handle.advance_to(epoch)
                handle.send(found)
        job.wait(DEADLINE_S)
        expected, substreams = (
            sorted((entry.time, *row) for entry in job.captured(name) for row in entry.batch)
            for name in ("sessions", "substreams")
        )
        assert substreams == expected
        assert_nothing_left(job)
