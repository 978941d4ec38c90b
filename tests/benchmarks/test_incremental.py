"""The benchmark of changing components runs on Ray, and leaves nothing behind; how fast it is, is not tested."""

import pytest

from tests.benchmarks.quick_run import Figures, quick_run

pytestmark = [pytest.mark.ray, pytest.mark.long]


@pytest.fixture(scope="module")
def figures(ray_cluster: str) -> Figures:
    """What one quick run has measured; it fails if labels are not those of scipy."""
    return quick_run("collections.incremental", RAY_ADDRESS=ray_cluster)


def test_it_has_all_parts(figures: Figures) -> None:
    """From scratch, single changes, many at once, and memory; Pathway only if it is installed."""
    scratch = {name.removeprefix("from scratch: ") for name in figures["rows"] if name.startswith("from scratch: ")}
    ours = {
        f"{kind}, {workers}" for kind in ("collections", "today's example") for workers in ("1 worker", "2 workers")
    }
    assert scratch - {"Pathway, 2 threads"} == {*ours, "scipy, 1 thread", "Spark, local[2]"}
    single = {
        f"one edge: {what}"
        for what in ("nothing, 1 worker: p50", "collections, 1 worker: p50", "collections, 2 workers: p99")
    }
    assert single <= figures["rows"].keys()
    assert all(value > 0 for name, value in figures["rows"].items() if "growth" not in name)


def test_it_says_what_is_expected(figures: Figures) -> None:
    """Each of the limits, once for each number of workers where that matters."""
    assert len([name for name in figures["expectations"] if "Pathway" not in name]) == 10
