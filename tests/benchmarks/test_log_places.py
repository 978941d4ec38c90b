"""The benchmark of the places of a log has both, and leaves nothing behind."""

import pytest

from tests.benchmarks.quick_run import quick_run

pytestmark = pytest.mark.long


def test_it_has_both_places() -> None:
    """For batches of each size, one at a time and many."""
    rows = quick_run("topics.log_places")["rows"]
    assert len(rows) == 12
    assert all(value > 0 for value in rows.values())
