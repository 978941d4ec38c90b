"""Spark DataFrames in and out of dataflows, through Spark executors that are actors of the same Ray cluster."""

from tidewheel.spark_bridge.dataframe_sink import to_spark
from tidewheel.spark_bridge.dataframe_source import from_spark
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.session import session

__all__ = ["BridgeError", "from_spark", "session", "to_spark"]
