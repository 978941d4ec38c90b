"""Spark DataFrames in and out of dataflows, through Spark executors that are actors of the same Ray cluster.

Importing this package loads no library; its functions load Ray, Spark and Arrow when you call them.
"""

from tidewheel.spark_bridge.dataframe_sink import to_spark
from tidewheel.spark_bridge.dataframe_source import from_spark
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.session import session
from tidewheel.spark_bridge.structured_streaming.feed import feed
from tidewheel.spark_bridge.structured_streaming.write_epochs import write_epochs

__all__ = ["BridgeError", "feed", "from_spark", "session", "to_spark", "write_epochs"]
