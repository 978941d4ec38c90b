"""Environment variables, set for a while."""

import os

import pytest

from tidewheel.spark_bridge.process_environment import process_environment


def test_variables_are_restored_or_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable gets its old value back, and one that was not there goes, whatever the block did with it."""
    monkeypatch.setenv("TIDEWHEEL_OLD", "before")
    monkeypatch.delenv("TIDEWHEEL_NEW", raising=False)
    with process_environment(TIDEWHEEL_OLD="in", TIDEWHEEL_NEW="in"):
        assert (os.environ["TIDEWHEEL_OLD"], os.environ["TIDEWHEEL_NEW"]) == ("in", "in")
        del os.environ["TIDEWHEEL_NEW"]
    assert os.environ["TIDEWHEEL_OLD"] == "before"
    assert "TIDEWHEEL_NEW" not in os.environ
