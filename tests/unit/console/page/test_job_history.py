"""The history of operators."""

import math

import pytest

from tidewheel.console.page import job_history
from tidewheel.console.page.job_history import METRICS, MOMENTS, JobHistory


def test_an_operator_has_its_numbers_at_each_moment() -> None:
    """What was not known then is NaN; what it is not known by is empty."""
    history = JobHistory()
    history.add(10.0, {"0": {"records_in": 5.0}, "1": {"busy": 0.5}})
    history.add(11.0, {"0": {"records_in": 6.0, "queue": 2}, "1": {}})
    found = history.of("0")
    assert found["at"] == [10.0, 11.0]
    assert found["records_in"] == [5.0, 6.0]
    assert math.isnan(found["queue"][0])
    assert found["queue"][1] == 2.0
    assert set(found) == {"at", *METRICS}
    assert history.of("9") == {"at": [], **{metric: [] for metric in METRICS}}


def test_an_operator_that_comes_later_has_later_moments() -> None:
    """Its columns are as long as its times."""
    history = JobHistory()
    history.add(1.0, {"0": {"busy": 0.0}})
    history.add(2.0, {"0": {"busy": 0.0}, "1": {"busy": 1.0}})
    assert history.of("1")["at"] == [2.0]
    assert history.of("1")["busy"] == [1.0]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten minutes, and so many operators."""
    monkeypatch.setattr(job_history, "MOST_OPERATORS", 2)
    history = JobHistory()
    for second in range(MOMENTS + 50):
        history.add(float(second), {str(number): {"busy": 0.1} for number in range(3)})
    assert history.of("0")["at"] == [float(second) for second in range(50, MOMENTS + 50)]
    assert history.of("2")["at"] == []
