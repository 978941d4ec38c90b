"""The benchmark of many subscribers runs, and the publisher does as much for 2,000 of them as for 100."""

import pytest

from tests.benchmarks.quick_run import Figures, quick_run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def figures() -> Figures:
    """What one quick run has measured."""
    return quick_run("fanout")


def test_acknowledgements_cost_the_publisher_the_same_for_many(figures: Figures) -> None:
    """In bytes, and in positions that it keeps: one for each relay that is its child."""
    assert figures["expectations"]["2000 subscribers by 100: bytes up to the publisher"] <= 1.1
    assert figures["rows"]["2000 subscribers, kept: by the publisher"] == 2


def test_every_hop_is_measured(figures: Figures) -> None:
    """Down and up, from the publisher to subscribers."""
    hops = [name for name in figures["rows"] if name.startswith("2000 subscribers, each message: ")]
    assert len(hops) == 6
