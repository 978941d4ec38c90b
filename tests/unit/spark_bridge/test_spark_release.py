"""What the bridge makes of the releases of PySpark and RayDP that are installed."""

from importlib.metadata import version

import pytest

from tests.kit.messages import raises
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.spark_release import SparkRelease, installed

PAIRS = [("3.5.7", "1.6.5"), ("4.0.5", "1.7.0b20260911.dev0"), ("4.1.4", "1.7.0"), ("4.2.1", "1.7.2")]
MISFITS = [
    ("3.5.7", None),
    ("4.2.1", None),
    ("3.5.7", "1.7.0"),
    ("4.2.1", "1.6.5"),
    ("4.3.0", "1.7.0"),
    ("4.10.0", "1.7.0"),
    (None, "1.6.5"),
    (None, None),
]


def test_those_of_this_process_fit() -> None:
    """The tests run with a PySpark and a RayDP that the bridge knows together."""
    assert installed() == SparkRelease(version("pyspark"), version("raydp"))
    installed().check_raydp()


@pytest.mark.parametrize(("pyspark", "raydp"), PAIRS)
def test_a_raydp_for_the_spark_is_accepted(pyspark: str, raydp: str) -> None:
    """Each line of RayDP is for its own releases of Spark; pre-releases count."""
    SparkRelease(pyspark, raydp).check_raydp()


@pytest.mark.parametrize(("pyspark", "raydp"), MISFITS)
def test_another_is_refused(pyspark: str | None, raydp: str | None) -> None:
    """RayDP itself would fail late, with a class or an argument that it does not find."""
    with raises(BridgeError):
        SparkRelease(pyspark, raydp).check_raydp()


@pytest.mark.parametrize(("pyspark", "expected"), [(None, False), ("3.5.7", False), ("4.0.0", True), ("5.0.0", True)])
def test_public_conversions_came_with_spark_4(pyspark: str | None, expected: bool) -> None:
    """Before, rows of a session without RayDP need private parts of PySpark."""
    assert SparkRelease(pyspark, None).converts_arrow == expected
