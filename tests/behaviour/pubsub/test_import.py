"""The cost of importing the package."""

import subprocess
import sys


def test_importing_loads_neither_ray_nor_spark_nor_arrow() -> None:
    """The package is cheap to import: heavy libraries load when they are needed."""
    code = (
        "import sys, tidewheel.pubsub; print([m for m in ('ray', 'pyspark', 'pyarrow', 'numpy') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
