"""The benchmark of connected components runs on Ray, and leaves nothing behind; how fast it is, is not tested."""

import pytest

from tests.benchmarks.quick_run import Figures, quick_run

pytestmark = [pytest.mark.ray, pytest.mark.long]

GRAPH = "3,000 random edges"
OURS = ("tidewheel, 1 worker", "tidewheel, 2 workers")


@pytest.fixture(scope="module")
def figures(ray_cluster: str) -> Figures:
    """What one quick run has measured; it fails if not all labels are the same."""
    return quick_run("loops.components", RAY_ADDRESS=ray_cluster)


def test_it_has_all_contestants(figures: Figures) -> None:
    """One and two workers on Ray and on the local engine, scipy, Spark, and Pathway if it is installed."""
    names = {name.removeprefix(f"{GRAPH}: ").removesuffix(", ended before it was done") for name in figures["rows"]}
    local = {f"{name}, local engine" for name in OURS}
    assert names - {"Pathway, 2 threads"} == {*OURS, *local, "scipy, 1 thread", "Spark, local[2]"}
    assert all(value > 0 for value in figures["rows"].values())


def test_it_says_what_is_expected(figures: Figures) -> None:
    """The faster of one and two workers is compared with each of the peers that run a loop."""
    rows = figures["rows"]
    best = min(rows[f"{GRAPH}: {name}"] for name in OURS)
    ratios = figures["expectations"]
    peers = [name for name in rows if name.startswith((f"{GRAPH}: Spark", f"{GRAPH}: Pathway"))]
    assert len(ratios) == len(peers) >= 1
    for name in peers:
        peer = name.removeprefix(f"{GRAPH}: ").removesuffix(", ended before it was done")
        ratio = ratios[f"{GRAPH}: tidewheel's time over that of {peer}, ratio"]
        assert ratio == pytest.approx(best / rows[name])
