"""The benchmark of telemetry runs on both engines, and compares what it says that it compares."""

import pytest

from tests.benchmarks.quick_run import quick_run

pytestmark = [pytest.mark.ray, pytest.mark.long]


def test_it_compares_each_way_with_none(ray_cluster: str) -> None:
    """Throughput and processor time, with a listener and without one."""
    figures = quick_run("jobs.telemetry", RAY_ADDRESS=ray_cluster)
    works = [f"{work}, {engine}" for work in ("word count", "empty epochs") for engine in ("local", "ray")]
    ways = ("no listener", "a listener")
    rates = ("without telemetry", "without telemetry, again", *ways)
    losses = ("of throughput lost", "more processor time")
    alike = {f"{work}, jobs alike: % {what}" for work in works for what in losses}
    assert set(figures["rows"]) == {f"{work}, {way}" for work in works for way in rates} | alike
    assert set(figures["expectations"]) == {
        f"{work}, {way}: % {what}" for work in works for way in ways for what in losses
    } | {f"{work}: describing and reading, % of a core" for work in works}
