"""The benchmark of progress tracking runs, and what it counts (not what it times) is what is promised."""

import pytest

from tests.benchmarks.quick_run import Figures, quick_run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def figures() -> Figures:
    """What one quick run has measured."""
    return quick_run("tracking.progress")


def test_it_prints_what_the_readme_quotes(figures: Figures) -> None:
    """The figures by operators, by epochs in flight and by workers are all there."""
    assert figures["expectations"]["100 maps and a probe: an empty epoch, us"] > 0
    for name in ("10000 maps: an empty epoch", "10000 epochs in flight, oldest first: one more, and one less"):
        assert figures["rows"][name] > 0


def test_messages_are_linear_in_workers_when_accumulated(figures: Figures) -> None:
    """An epoch that all workers pass costs one message to and one from the accumulator for each other worker."""
    for workers in (2, 4, 8, 16, 32):
        counts = {
            spread: figures["rows"][f"empty epoch, {workers} workers, {spread}, held back: of progress"]
            for spread in ("broadcast", "accumulated")
        }
        assert counts == {"broadcast": workers * (workers - 1), "accumulated": 2 * (workers - 1)}


def test_hold_back_saves_messages(figures: Figures) -> None:
    """An epoch with data takes less than half of the messages that it takes without."""
    for spread in ("broadcast", "accumulated"):
        assert figures["expectations"][f"{spread}, 16 workers: messages with hold-back against without, ratio"] < 0.5
