"""The private parts of Spark, PySpark and RayDP on which the bridge relies: the contract of new releases.

``tests/spark/test_jvm.py`` has the part of it that needs a session.
"""

import importlib
import inspect
import subprocess
import sys
import threading
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import pytest

from tests.waiting import eventually
from tidewheel.spark_bridge import jvm
from tidewheel.spark_bridge.ray_cluster import NOISE


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
    pyspark, raydp, py4j = map(version, ("pyspark", "raydp", "py4j"))
    if pyspark.startswith("3.5."):
        assert raydp.startswith("1.6.")
        assert py4j == "0.10.9.7"
    else:
        assert pyspark.startswith(("4.0.", "4.1.", "4.2."))
        assert raydp.startswith("1.7.")
        assert py4j == "0.10.9.9"


@pytest.mark.parametrize("names", [("desc", "cause"), ("_desc", "_cause")], ids=["Spark 3.5", "Spark 4"])
def test_an_exception_of_spark_has_the_message_of_its_first_cause(names: tuple[str, str]) -> None:
    """PySpark copies both from the JVM, as the JVM may be gone when the program asks."""
    from pyspark.errors.exceptions.captured import CapturedException

    inner, outer = RuntimeError(), RuntimeError()
    for error, values in ((inner, ("no number", None)), (outer, ("Job aborted", inner))):
        vars(error).update(zip(names, values, strict=True))
    assert jvm.captured_message(outer) == "no number"
    assert jvm.captured_message(RuntimeError("of Python")) is None
    source = inspect.getsource(CapturedException.__init__)
    assert ("self._desc =" if version("pyspark").startswith("4.") else "self.desc =") in source


SAID = "gcs_client.cc:96: GcsClient has no Cluster ID set, and won't fetch from GCS."
NOISE_LINES = [f"[2026-11-24 12:51:39,{thousandths} I 9776 9902] {SAID}" for thousandths in (205, 470)]
NOISE_LINES.append("WARNING: Using incubator modules: jdk.incubator.vector")


def test_the_errors_of_a_jvm_are_shown_without_noise(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """PySpark hands ``popen_kwargs`` to the JVM's process; all that this writes is shown at once but for the noise."""
    context: Any = importlib.import_module("pyspark.context")
    program = "printf '%s\\n' \"$@\" >&2; printf 'a bar\\r' >&2"
    running: list[subprocess.Popen[bytes]] = []

    def launch(conf: object, popen_kwargs: dict[str, Any]) -> None:
        lines = ["before", *NOISE_LINES, f"> {NOISE_LINES[0]}"]
        running.append(subprocess.Popen(["sh", "-c", program, "sh", *lines], **popen_kwargs))

    assert list(inspect.signature(context.launch_gateway).parameters) == ["conf", "popen_kwargs"]
    assert "launch_gateway(conf)" in inspect.getsource(context.SparkContext._ensure_initialized)
    monkeypatch.setattr(context, "launch_gateway", launch)
    with jvm.errors_without(NOISE):
        context.launch_gateway(None)
    assert context.launch_gateway is launch
    assert running[0].wait(10) == 0
    shown = ""

    def all_is_shown() -> bool:
        nonlocal shown
        shown += capfd.readouterr().err
        return shown == f"before\n> {NOISE_LINES[0]}\na bar\r"

    assert eventually(all_is_shown), shown
    relays = [thread for thread in threading.enumerate() if thread.name == "tidewheel-jvm-errors"]
    assert eventually(lambda: not any(thread.is_alive() for thread in relays))
