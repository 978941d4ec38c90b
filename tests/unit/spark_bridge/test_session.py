"""Sessions that a program has started by RayDP itself."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.messages import raises
from tidewheel.spark_bridge import BridgeError
from tidewheel.spark_bridge.session import running_session
from tidewheel.spark_bridge.spark_configuration import spark_configuration


def run_by_raydp(patch: pytest.MonkeyPatch, settings: dict[str, str], *, is_connected: bool = True) -> Any:
    """Have RayDP run a session with these settings, and return that."""
    context = SimpleNamespace(appName="own", getConf=lambda: settings, _jsc=object())
    spark = SimpleNamespace(sparkContext=context)
    running = SimpleNamespace(
        _spark_session=spark, _fault_tolerant_mode=is_connected, get_or_create_session=lambda: spark
    )
    patch.setitem(sys.modules, "raydp.context", SimpleNamespace(_global_spark_context=running))
    return spark


def test_none_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without RayDP, and with one that runs nothing, there is no session."""
    monkeypatch.delitem(sys.modules, "raydp.context", raising=False)
    assert running_session() is None
    monkeypatch.setitem(sys.modules, "raydp.context", SimpleNamespace(_global_spark_context=None))
    assert running_session() is None


def test_one_that_can_convert_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Java options may be settings, or in the environment of every JVM."""
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    settings = spark_configuration()
    spark = run_by_raydp(monkeypatch, settings)
    assert running_session() is spark
    spark = run_by_raydp(monkeypatch, {})
    monkeypatch.setenv("JDK_JAVA_OPTIONS", settings["spark.driver.extraJavaOptions"])
    assert running_session() is spark


def test_one_that_cannot_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names what is missing, and how to have it."""
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    settings = spark_configuration()
    del settings["spark.executor.extraJavaOptions"]
    run_by_raydp(monkeypatch, settings)
    with raises(BridgeError):
        running_session()
    run_by_raydp(monkeypatch, spark_configuration(), is_connected=False)
    with raises(BridgeError):
        running_session()
    spark = run_by_raydp(monkeypatch, spark_configuration())
    spark.sparkContext._jsc = None
    with raises(BridgeError):
        running_session()
