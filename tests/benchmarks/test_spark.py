"""The benchmarks of the Spark bridge run beside RayDP's own conversions, and leave nothing behind."""

import pytest

from tests.benchmarks.quick_run import Figures, quick_run

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROWS = "200,000 rows"
WAYS = {"in": ("from_spark", "RayDP", "toPandas", "a job without rows"), "out": ("to_spark", "RayDP")}


@pytest.fixture(scope="module")
def figures() -> Figures:
    """What one quick run has measured, on a Ray that it starts itself."""
    return quick_run("spark.dataframes", RAY_ADDRESS="")


def test_it_has_seconds_of_all(figures: Figures) -> None:
    """Each way in and out, and the ratios that are asked for."""
    for way, names in WAYS.items():
        assert all(figures["rows"][f"{way}, {ROWS}, {name}"] > 0 for name in names)
        ours = names[0]
        ratio = figures["rows"][f"{way}, {ROWS}, {ours} by RayDP"]
        assert figures["expectations"][f"{way}, {ROWS}, {ours} by RayDP"] == ratio > 0


def test_rows_go_there_and_back(figures: Figures) -> None:
    """None differs."""
    assert figures["expectations"][f"round trip of {ROWS}, rows that differ"] == 0
