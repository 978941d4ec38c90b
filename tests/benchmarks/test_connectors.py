"""The benchmark of connectors measures each, and leaves nothing behind."""

import pytest

from tests.benchmarks.quick_run import quick_run

pytestmark = pytest.mark.long


def test_it_has_each_format_in_each_place() -> None:
    """Files of this machine beside pyarrow alone, those of a store, and a Ray Dataset."""
    rows = quick_run("connectors.connectors")["rows"]
    assert len(rows) == 13
    assert all(value > 0 for value in rows.values())
