"""What the bridge relies on in Spark, PySpark and RayDP privately: the contract of new releases.

``tests/spark/test_jvm.py`` has the part of it that needs a session.
"""

import inspect
import sys
from importlib.metadata import version
from types import SimpleNamespace

import pytest

from tidewheel.spark_bridge import jvm


def test_no_session_of_raydp(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none without RayDP, before ``init_spark``, and while that is still starting."""
    monkeypatch.delitem(sys.modules, "raydp.context", raising=False)
    assert jvm.raydp_session() is None
    monkeypatch.setitem(sys.modules, "raydp.context", SimpleNamespace(_global_spark_context=None))
    assert jvm.raydp_session() is None
    starting = SimpleNamespace(_spark_session=None)
    monkeypatch.setitem(sys.modules, "raydp.context", SimpleNamespace(_global_spark_context=starting))
    assert jvm.raydp_session() is None


def test_raydp_keeps_its_session_where_the_bridge_looks() -> None:
    """``raydp.context`` has one context a process, with its session and whether that is connected to Ray."""
    import raydp.context

    assert hasattr(raydp.context, "_global_spark_context")
    made = raydp.context._SparkContext("app", 1, 1, "1g", False, True, None, None, None)
    assert made._spark_session is None
    assert made._fault_tolerant_mode is True


def test_a_cluster_of_raydp_is_started_and_stopped_in_this_way() -> None:
    """`session` uses the public ``SparkCluster``, and does without RayDP's global context."""
    from raydp.spark import SparkCluster

    assert list(inspect.signature(SparkCluster).parameters) == [
        "app_name",
        "num_executors",
        "executor_cores",
        "executor_memory",
        "enable_hive",
        "configs",
    ]
    assert list(inspect.signature(SparkCluster.stop).parameters) == ["self", "cleanup_data"]


def test_a_builder_of_sessions_begins_empty() -> None:
    """So settings of one session do not reach the next, though nobody clears them."""
    from pyspark.sql import SparkSession

    SparkSession.builder.config("spark.app.name", "first")
    assert not vars(SparkSession.builder)["_options"]


def test_these_are_releases_that_are_allowed() -> None:
    """Other ones need this contract to be run with them, and the bounds in pyproject.toml changed."""
    assert version("pyspark").startswith("3.5.")
    assert version("raydp").startswith("1.6.")
    assert version("py4j") == "0.10.9.7"
