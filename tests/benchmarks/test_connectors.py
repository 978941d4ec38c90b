"""The benchmarks of connectors measure each, and leave nothing behind."""

import pytest

from tests.benchmarks.quick_run import quick_run

pytestmark = pytest.mark.long


def test_it_has_each_format_in_each_place() -> None:
    """Files of this machine beside pyarrow alone, and those of a store."""
    rows = quick_run("connectors.connectors")["rows"]
    assert len(rows) == 10
    assert all(value > 0 for value in rows.values())


def test_it_has_the_sink_and_the_source_of_delta() -> None:
    """Beside the library alone."""
    figures = quick_run("connectors.delta")
    assert len(figures["rows"]) == 7
    assert len(figures["expectations"]) == 2
