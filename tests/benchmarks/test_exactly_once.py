"""The benchmark of exactly-once delivery runs on Ray beside the brokers there are, and leaves nothing behind."""

from pathlib import Path

import pytest

from tests.benchmarks.quick_run import Figures, quick_run
from tests.ray.leftovers import nothing_left

pytestmark = [pytest.mark.ray, pytest.mark.long]

EXACTLY_ONCE, IN_MEMORY, BEST_EFFORT = (
    f"tidewheel, {topic}" for topic in ("exactly once", "log in memory", "best effort")
)
FLOOR, GROUPED_FLOOR, MEMORY_FLOOR = "file, a sync a batch", "file, a sync a MiB", "file in memory"
OPTIONAL = {IN_MEMORY, "Redis Streams", "NATS JetStream", "NATS JetStream, a sync in 2 minutes"}
ONE = "1 subscriber"
SIZES = ("1 KB", "64 KB", "1 MB")
HISTORY = "21 MB in batches of 64 KB"
MEMORY = Path("/dev/shm")
FROM_LOG = ("from memory", "from the disk")


@pytest.fixture(scope="module")
def figures(ray_cluster: str) -> Figures:
    """What one quick run has measured; it fails if a subscriber has not had every batch once."""
    before = set(MEMORY.glob("exactly-once-*"))
    with nothing_left():
        found = quick_run("topics.exactly_once", RAY_ADDRESS=ray_cluster)
    assert set(MEMORY.glob("exactly-once-*")) <= before
    return found


def test_it_has_latencies_and_throughputs_of_all(figures: Figures) -> None:
    """Of tidewheel with the guarantee and without, of files, and of the brokers where they are installed."""
    rows = figures["rows"]
    there = {EXACTLY_ONCE, BEST_EFFORT} | {name for name in OPTIONAL if any(f", {name}: " in row for row in rows)}
    latencies = {f"{ONE}, 100 messages/s, {name}" for name in there | {FLOOR}}
    expected = {f"{what}: {figure}" for what in latencies for figure in ("p50", "p99", "rate")}
    floors = {FLOOR, GROUPED_FLOOR} | ({MEMORY_FLOOR} if IN_MEMORY in there else set())
    throughputs = {f"{ONE}, {size}, {name}" for size in SIZES for name in there | floors}
    expected |= {f"{what}: {figure}" for what in throughputs for figure in ("a batch", "bytes")}
    assert {row for row in rows if row.startswith(ONE) and "exactly once by" not in row} == expected
    assert all(rows[row] > 0 for row in expected)
    assert all(rows[f"{what}: p50"] <= rows[f"{what}: p99"] for what in latencies)


def test_the_overhead_is_told_for_each_size(figures: Figures) -> None:
    """Beside best effort and a file, on the disk and, where there is room, in memory; there is a limit at 64 KB."""
    rows = figures["rows"]
    ways = ["on the disk, exactly once by best effort and a file"]
    alone = []
    if any(f", {IN_MEMORY}: " in row for row in rows):
        ways.append("in memory, exactly once by best effort and a file")
        alone.append("in memory, exactly once by best effort alone")
    compared = {f"{ONE}, {size}, {how}" for size in SIZES for how in ways + alone}
    assert {row for row in rows if "exactly once by" in row} == {
        f"{what}: {figure}" for what in compared for figure in ("longer", "ratio", "throughput lost")
    }
    for how in ways + alone:
        ratio = figures["expectations"][f"{ONE}, 64 KB, {how}, ratio"]
        assert ratio == pytest.approx(rows[f"{ONE}, 64 KB, {how}: ratio"])
        assert rows[f"{ONE}, 64 KB, {how}: throughput lost"] == pytest.approx(100 * (1 - 1 / ratio))


def test_a_log_is_caught_up_with(figures: Figures) -> None:
    """All that is in a log is read by others that come later; how fast is compared with how fast it came live."""
    rows = figures["rows"]
    live = rows[f"{HISTORY}, live"]
    for how in FROM_LOG:
        ratio = figures["expectations"][f"{HISTORY}: live by from the log, {how}, ratio"]
        assert ratio == pytest.approx(live / rows[f"{HISTORY}, from the log, {how}"])


def test_a_relay_is_killed(figures: Figures) -> None:
    """Everything comes once all the same; how long the next message took is told, and how long one usually takes."""
    rows = figures["rows"]
    assert rows["from a relay's death to the next message"] > 0
    assert rows["behind a relay, 200 messages/s: one message"] > 0


def test_a_lag_costs_no_more_memory_than_there_may_be(figures: Figures) -> None:
    """Of the publisher, the relay, and the subscriber."""
    for who in ("the publisher", "the relay", "the subscriber"):
        what = f"21 MB behind: growth of {who}"
        assert figures["expectations"][f"{what}, MiB"] == pytest.approx(figures["rows"][what])
