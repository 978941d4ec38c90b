"""Tests of dataflows and sinks with crashes, for a user's own test suite."""

from tidewheel.testing.crashes import Crash, Inputs, Results, check_crashes, run_with_crash
from tidewheel.testing.sink_check import check_sink

__all__ = ["Crash", "Inputs", "Results", "check_crashes", "check_sink", "run_with_crash"]
