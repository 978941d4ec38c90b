"""Tests of dataflows, sources and sinks with crashes, for your own test suite."""

from tidewheel.testing.crashes import Crash, Inputs, Results, check_crashes, run_with_crash
from tidewheel.testing.fake_broker import FakeBroker
from tidewheel.testing.sink_check import check_sink
from tidewheel.testing.source_check import check_source

__all__ = ["Crash", "FakeBroker", "Inputs", "Results", "check_crashes", "check_sink", "check_source", "run_with_crash"]
