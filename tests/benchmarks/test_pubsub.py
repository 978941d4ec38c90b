"""The benchmark of topics runs on Ray beside the brokers there are, and leaves nothing behind, even interrupted."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from tests.benchmarks.quick_run import Figures, quick_run
from tests.ray.leftovers import nothing_left
from tests.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.long]

ROOT = Path(__file__).parents[2]
OURS, FLOOR, PEER = "tidewheel", "bare ZeroMQ", "Redis pub/sub"
BROKERS = {PEER, "Redis Streams", "NATS"}
LATENCIES = ("1 subscriber, 2,000 messages/s", "10 subscribers, 200 messages/s")
THROUGHPUTS = ("1 subscriber, Arrow tables", "1 subscriber, lists of tuples", "10 subscribers, Arrow tables")
_ENDS_WITHIN_S = 60.0


@pytest.fixture(scope="module")
def figures(ray_cluster: str) -> Figures:
    """What one quick run has measured; nothing of its job is left in the end."""
    with nothing_left():
        return quick_run("topics.pubsub", RAY_ADDRESS=ray_cluster)


def test_it_has_latencies_and_throughputs_of_all(figures: Figures) -> None:
    """One subscriber and ten, of tidewheel, of bare sockets, and of the brokers where they are installed."""
    rows = figures["rows"]
    contestants = {OURS, FLOOR} | {name for name in BROKERS if any(f", {name}: " in row for row in rows)}
    expected = {
        f"{what}, {name}: {figure}" for what in LATENCIES for name in contestants for figure in ("p50", "p99", "rate")
    }
    expected |= {
        f"{what}, {name}: {figure}" for what in THROUGHPUTS for name in contestants for figure in ("records", "bytes")
    }
    assert set(rows) == expected, "nothing is lost, or that would be a row"
    assert all(value > 0 for value in rows.values())
    assert all(
        rows[f"{what}, {name}: p50"] <= rows[f"{what}, {name}: p99"] for what in LATENCIES for name in contestants
    )


def test_it_says_what_is_expected(figures: Figures) -> None:
    """The median latency has a limit; latency and tables are compared with the brokers that are there."""
    rows = figures["rows"]
    expected = {f"{LATENCIES[0]}, {OURS}: p50, us": rows[f"{LATENCIES[0]}, {OURS}: p50"]}
    if f"{LATENCIES[0]}, {PEER}: p50" in rows:
        ratio = rows[f"{LATENCIES[0]}, {OURS}: p50"] / rows[f"{LATENCIES[0]}, {PEER}: p50"]
        expected[f"{LATENCIES[0]}: p50 of {OURS} and of {PEER}, ratio"] = ratio
        tables = next(name for name in THROUGHPUTS if "tables" in name)
        ratio = rows[f"{tables}, {PEER}: bytes"] / rows[f"{tables}, {OURS}: bytes"]
        expected[f"{tables}: bytes a second by {PEER} and by {OURS}, ratio"] = ratio
    for what in (name for name in THROUGHPUTS if "tables" in name):
        best = max(
            (value for name, value in rows.items() if name in {f"{what}, {of}: bytes" for of in BROKERS}), default=None
        )
        if best is not None:
            ratio = best / rows[f"{what}, {OURS}: bytes"]
            expected[f"{what}: bytes a second by the best broker and by {OURS}, ratio"] = ratio
    assert figures["expectations"] == {name: pytest.approx(value) for name, value in expected.items()}


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL], ids=["interrupt", "kill"])
def test_nothing_outlives_it(ray_cluster: str, by: signal.Signals) -> None:
    """Servers, publishers and subscribers end with the benchmark, however that ends, also in the middle of a turn."""
    with TemporaryDirectory(prefix="tw") as folder, nothing_left():
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.topics.pubsub", "--quick"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "RAY_ADDRESS": ray_cluster, "TMPDIR": folder},
                cwd=ROOT,
            )
        finally:
            signal.signal(signal.SIGINT, before)
        with process:
            assert process.stdout is not None
            first = next((line for line in process.stdout if ": p50" in line), None)
            assert first is not None, "it has ended before it has measured anything"
            started = psutil.Process(process.pid).children(recursive=True)
            assert len(started) > 3
            process.send_signal(by)
            process.wait(_ENDS_WITHIN_S)
        assert eventually(lambda: not any(map(is_alive, started)), _ENDS_WITHIN_S), [*filter(is_alive, started)]


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
