"""The benchmark with a subscriber that is stopped runs on Ray, leaves nothing behind, and memory is as promised."""

import pytest

from tests.benchmarks.quick_run import Figures, quick_run
from tests.ray.leftovers import nothing_left

pytestmark = [pytest.mark.ray, pytest.mark.long]

STOPPED = ("one stopped", "one stopped, for which epochs are left out")
CAPACITY_MIB, SPARE_MIB = 4.0, 8.0


@pytest.fixture(scope="module")
def figures(ray_cluster: str) -> Figures:
    """What one quick run has measured; it fails if one of the 99 others has not had every epoch."""
    with nothing_left():
        return quick_run("topics.slow_subscriber", RAY_ADDRESS=ray_cluster)


def test_it_has_latencies_with_and_without(figures: Figures) -> None:
    """Of the 99 others, median and p99, and how they compare."""
    rows = figures["rows"]
    for name in ("all read", *STOPPED):
        assert 0 < rows[f"{name}, 99 subscribers: p50"] <= rows[f"{name}, 99 subscribers: p99"]
    for name in STOPPED:
        ratio = rows[f"{name}, 99 subscribers: p99"] / rows["all read, 99 subscribers: p99"]
        assert figures["expectations"][f"{name}: p99 by the p99 without it"] == pytest.approx(ratio)


@pytest.mark.parametrize("name", STOPPED)
def test_memory_stays_within_the_capacity(figures: Figures, name: str) -> None:
    """What waits for the one that is stopped reaches it and no more, and the process grows by no more than that."""
    waiting = figures["expectations"][f"{name}: waiting for the slowest, at most, MiB"]
    assert CAPACITY_MIB / 2 < waiting <= CAPACITY_MIB
    assert figures["expectations"][f"{name}: growth beyond that without it, MiB"] <= CAPACITY_MIB + SPARE_MIB


def test_it_has_a_live_reader_with_and_without_late_ones(figures: Figures) -> None:
    """How many epochs it receives, and for how long it receives none; the late ones receive some, too."""
    rows, expectations = figures["rows"], figures["expectations"]
    before, after = (rows[f"{who}: epochs of a live reader"] for who in ("no late reader", "3 late readers"))
    assert rows["3 late readers: epochs of each of them"] > 0
    assert expectations["3 late readers: time for an epoch, by that without them"] == pytest.approx(before / after)
    gap_s = rows["3 late readers: longest gap of a live reader"]
    assert expectations["3 late readers: longest gap of a live reader, s"] == pytest.approx(gap_s)
