"""The benchmark of hashes runs, and finds no two keys alike."""

from tests.benchmarks.quick_run import quick_run


def test_no_keys_collide() -> None:
    """Of any kind, in the quick form; that has too few keys to tell how evenly workers are loaded."""
    figures = quick_run("records.hashes")
    assert len(figures["rows"]) == 4 * len(figures["expectations"])
    assert set(figures["expectations"].values()) == {0}
