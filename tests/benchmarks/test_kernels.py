"""The benchmark of kernels runs, and its contestants agree; how fast they are is not tested."""

import pytest

from tests.benchmarks.quick_run import Figures, quick_run

pytestmark = pytest.mark.long

OF_THE_PROJECT = ("NumPy", "pyarrow")
"""Contestants that are always there; Polars and DuckDB come with an extra."""


@pytest.fixture(scope="module")
def figures() -> Figures:
    """What one quick run has measured; it fails if not all results are the same."""
    return quick_run("collections.kernels")


def test_every_contestant_does_all_work(figures: Figures) -> None:
    """Sorting, merging, joining and adding up, each of some sizes."""
    works = {name.rpartition(": ")[0] for name in figures["rows"]}
    assert len(works) == 10
    assert {f"{work}: {name}" for work in works for name in OF_THE_PROJECT} <= figures["rows"].keys()
    sorting = {work for work in works if work.startswith(("sort", "merge"))}
    assert {work for work in works if f"{work}: NumPy, one word" in figures["rows"]} == sorting
    assert all(value > 0 for value in figures["rows"].values())


def test_it_says_what_the_choice_rests_on(figures: Figures) -> None:
    """NumPy's time for a single change."""
    assert len(figures["expectations"]) == 3
