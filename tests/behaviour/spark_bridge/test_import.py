"""What importing the bridge costs."""

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
