"""The benchmark of pools of actors measures both contestants, and leaves nothing behind."""

import pytest

from tests.benchmarks.quick_run import quick_run

pytestmark = pytest.mark.long


def test_it_has_the_pool_and_ray_data() -> None:
    """With as many actors each."""
    figures = quick_run("records.inference")
    assert len(figures["rows"]) == 2
    assert all(value > 0 for value in figures["rows"].values())
    assert len(figures["expectations"]) == 1
