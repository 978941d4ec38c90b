"""The cost of importing the bridge."""

import subprocess
import sys


def test_importing_the_bridge_loads_no_library() -> None:
    """A program pays for Ray, Spark and Arrow when it opens a session, not when it imports one."""
    program = """
import sys
from tidewheel.spark_bridge import BridgeError, from_spark, session, to_spark
heavy = {"numpy", "pandas", "pyarrow", "pyspark", "ray", "raydp"} & set(sys.modules)
sys.exit(f"loaded {heavy}" if heavy else 0)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_worker_that_reads_a_dataframe_loads_no_spark() -> None:
    """The worker calls executors of Spark as actors of Ray, so PySpark would only cost it time and memory."""
    program = """
import sys
from tidewheel.spark_bridge import dataframe_blocks, dataframe_source
sys.exit("loaded PySpark" if "pyspark" in sys.modules else 0)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
