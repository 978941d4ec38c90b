"""Streams and the operators on them."""

from tidewheel.operators.dataflow import Dataflow
from tidewheel.operators.loop import Feedback, Loop
from tidewheel.operators.source import IterableSource
from tidewheel.operators.stream import Stream

__all__ = ["Dataflow", "Feedback", "IterableSource", "Loop", "Stream"]
