"""The benchmark of substreams runs on Ray and on simulated workers: few messages, and memory that stays flat."""

from itertools import product

import pytest

from tests.benchmarks.quick_run import Figures, quick_run
from tests.ray.leftovers import nothing_left

pytestmark = [pytest.mark.ray, pytest.mark.long]


@pytest.fixture(scope="module")
def figures(ray_cluster: str) -> Figures:
    """What one quick run has measured; nothing of its jobs is left in the end."""
    with nothing_left():
        return quick_run("tracking.substreams", RAY_ADDRESS=ray_cluster)


@pytest.mark.parametrize("name", ["together", "one by one"])
@pytest.mark.parametrize("kind", ["through a loop", "tokens"])
def test_ends_cost_three_messages_a_worker(figures: Figures, kind: str, name: str) -> None:
    """The command, the report and the news, however many workers there are."""
    for workers in (2, 8):
        what = f"{workers} workers, {kind}, {name}: messages a worker a batch of ends"
        assert 0 < figures["expectations"][what] <= 3


@pytest.mark.parametrize(
    "where",
    [
        "in one process, 1,000 substreams of 10",
        "substreams of 10 records that end together",
        "substreams of 10 records that end one by one",
    ],
)
def test_tokens_take_less_time_than_the_punctuations_of_the_paper(figures: Figures, where: str) -> None:
    """A third at most, where each of these is a message."""
    comma = "" if "process" in where else ","
    name = f"4 workers{comma} {where}, time by tokens by that by punctuations, each a message"
    assert 0 < figures["expectations"][name] <= 1 / 3


@pytest.mark.parametrize("size", ["1", "10", "100", "10,000"])
def test_records_go_through(figures: Figures, size: str) -> None:
    """With and without substreams, all of them."""
    for way, kind in product(("together", "one by one"), ("tokens", "punctuations", "not tracked")):
        assert figures["rows"][f"4 workers, substreams of {size} records that end {way}, {kind}"] > 100


def test_memory_is_flat(figures: Figures) -> None:
    """Of the workers, while substreams come and go."""
    assert figures["expectations"]["growth of the memory of the workers, MiB"] < 20
