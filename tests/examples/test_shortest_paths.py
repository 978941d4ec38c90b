"""The distances of the example, whose streets open and close, against Dijkstra's algorithm from scratch."""

import random
from collections import Counter
from heapq import heappop, heappush

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.loops import shortest_paths
from examples.parts.city_share import Change, Place, Street
from tests.examples.running import captured, epochs, records

_streets = st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(1, 5))


def dijkstra(city: Counter[Street], start: Place) -> dict[Place, int]:
    """Return how far each place is that can be reached."""
    found: dict[Place, int] = {}
    heap: list[tuple[int, int, Place]] = [(0, 0, start)]
    while heap:
        far, _, place = heappop(heap)
        if place not in found:
            found[place] = far
            for (source, target, minutes), open_ in city.items():
                if source == place and open_:
                    heappush(heap, (far + minutes, len(heap), target))
    return found


def check(changes: list[list[Change]], start: Place, workers: int) -> None:
    """Compare the distances after each epoch, and that only places whose distance is another one came out."""
    stream = captured(lambda flow: shortest_paths.distances(flow.source("changes", epochs(changes)), start), workers)
    city: Counter[Street] = Counter()
    distances: dict[Place, int | None] = {}
    for epoch, batch in enumerate(changes):
        for street, change in batch:
            city[street] += change
        moved = records(stream.get(epoch, []))
        assert all(distances.get(place) != minutes for place, minutes in moved), f"epoch {epoch}: {moved}"
        distances |= dict(moved)
        assert {p: m for p, m in distances.items() if m is not None} | {start: 0} == dijkstra(city, start), f"{epoch}"


@pytest.mark.parametrize("workers", [1, 2])
@given(epochs_of=st.lists(st.tuples(st.lists(_streets, max_size=12), st.integers(0, 2**16)), min_size=1, max_size=5))
def test_distances_equal_dijkstra(workers: int, epochs_of: list[tuple[list[Street], int]]) -> None:
    """Whatever streets open and close, parallel ones, circles and ways back to the start among them."""
    city: list[Street] = []
    changes: list[list[Change]] = []
    for opening, seed in epochs_of:
        chance = random.Random(seed)
        closing = chance.sample(city, chance.randrange(len(city) + 1))
        for street in closing:
            city.remove(street)
        city += opening
        changes.append([*((street, 1) for street in opening), *((street, -1) for street in closing)])
    check(changes, 0, workers)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_circle_that_is_cut_off_is_lost(workers: int) -> None:
    """Places that are reached only by way of each other do not hold each other up, counting to infinity."""
    circle = [(("a", "b", 1), 1), (("b", "c", 1), 1), (("c", "a", 1), 1)]
    check([[(("start", "a", 5), 1), *circle], [(("start", "a", 5), -1)], [(("start", "b", 2), 1)]], "start", workers)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_city_of_the_example(workers: int) -> None:
    """The changes that the program shows."""
    check(shortest_paths.closures(shortest_paths.streets()[:600], epochs=3), (0, 0), workers)
