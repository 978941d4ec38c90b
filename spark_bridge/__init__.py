"""Spark DataFrames in and out of dataflows, through Spark executors that are actors of the same Ray cluster."""

from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.session import session

__all__ = ["BridgeError", "session"]
