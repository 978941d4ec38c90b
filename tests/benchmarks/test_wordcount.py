"""The benchmark of counting words runs on Ray beside the peers there are, and leaves nothing behind."""

import pytest

from tests.benchmarks.quick_run import Figures, quick_run

pytestmark = [pytest.mark.ray, pytest.mark.long]

OURS = [
    f"tidewheel, {how}, {workers}"
    for how in ("Python functions", "Arrow's kernels")
    for workers in ("1 worker", "2 workers")
]
ALWAYS = [
    "Spark SQL, local[2]",
    "collections.Counter, 1 thread, the most that Python can do",
    "Arrow's kernels, 1 thread",
]
PEERS = {"Bytewax, 1 process", "Bytewax, 2 processes", "Pathway, 2 threads"}


@pytest.fixture(scope="module")
def figures(ray_cluster: str) -> Figures:
    """What one quick run has measured."""
    return quick_run("records.wordcount", RAY_ADDRESS=ray_cluster)


def test_it_has_the_words_a_second_of_all(figures: Figures) -> None:
    """Python and Arrow, one worker and two, Spark, and what one thread can do; other peers where they are installed."""
    rows = figures["rows"]
    assert {*OURS, *ALWAYS} <= set(rows) <= {*OURS, *ALWAYS, *PEERS}
    assert all(rate > 0 for rate in rows.values())


def test_it_says_what_is_expected(figures: Figures) -> None:
    """Spark SQL is compared with Arrow's kernels, each as fast as it is at best."""
    rows = figures["rows"]
    ours = max(rate for name, rate in rows.items() if name.startswith("tidewheel, Arrow's"))
    ratio = figures["expectations"]["Spark SQL: words a second over those of tidewheel, Arrow's kernels, ratio"]
    assert ratio == pytest.approx(rows["Spark SQL, local[2]"] / ours)
