"""The benchmark of look-ups runs on Ray, and leaves nothing behind; how fast they are, is not tested."""

import pytest

from tests.benchmarks.quick_run import quick_run
from tests.ray.leftovers import nothing_left

pytestmark = [pytest.mark.ray, pytest.mark.long]


def test_it_has_both_engines(ray_cluster: str) -> None:
    """One key and many, at rest and while keys change, and the floor."""
    with nothing_left():
        figures = quick_run("collections.lookups", RAY_ADDRESS=ray_cluster)
    names = {name for name in figures["rows"] if name.endswith("p50")}
    assert len([name for name in names if name.startswith("ray")]) == 4
    assert len([name for name in names if name.startswith("local")]) == 2
    assert names - {name for name in names if "keys" in name} == {"a call of an actor of Ray: p50"}
    assert len(figures["expectations"]) == 4
