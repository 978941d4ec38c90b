"""Answers of requests that walk a graph, against a search in one place."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from examples.loops import graph_requests
from tests.laws.strategies import law_settings

GRAPHS = st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 9), max_size=4), max_size=10)
DEADLINE_S = 30.0


def reached_from(graph: dict[int, list[int]], start: int) -> int:
    """Return how many nodes a walk comes to, where it begins among them."""
    seen, left = {start}, [start]
    while left:
        new = {node for node in graph.get(left.pop(), ()) if node not in seen}
        seen |= new
        left += new
    return len(seen)


@law_settings(40)
@given(GRAPHS, st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=4), st.integers(1, 4))
def test_each_request_is_answered_once_and_whole(
    graph: dict[int, list[int]], epochs: list[list[int]], workers: int
) -> None:
    """In graphs with cycles, whatever else walks at the same time; nothing is remembered in the end."""
    flow = tw.Dataflow("requests")
    graph_requests.answers(flow.input("requests"), lambda: graph).capture("answers")
    expected: Counter[Any] = Counter()
    with tw.run(flow, workers=workers, engine="local") as job:
        with job.input("requests") as handle:
            number = 0
            for epoch, starts in enumerate(epochs):
                handle.advance_to(epoch)
                for start in starts:
                    handle.send([(number, start)])
                    handle.end_substream(number)
                    expected[epoch, (number, reached_from(graph, start))] += 1
                    number += 1
        job.wait(DEADLINE_S)
        assert Counter((entry.time, row) for entry in job.captured("answers") for row in entry.batch) == expected
        visits = [
            instance.kept.states["visited"]
            for core in job._cores  # type: ignore[attr-defined]
            for instance in core._instances
            if instance.name.endswith("visit")
        ]
        assert visits == [{}] * workers
