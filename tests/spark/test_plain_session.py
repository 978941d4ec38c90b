"""Spark sessions without RayDP, each in a process of its own."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import pytest

from tests.spark.programs import run_program
from tidewheel.spark_bridge.spark_release import installed

pytestmark = [pytest.mark.spark, pytest.mark.long]

NEEDS_CONNECT = pytest.mark.skipif(
    not installed().converts_arrow or find_spec("grpc") is None, reason="Spark Connect needs Spark 4 and grpcio"
)


def check_rows(seen: Mapping[str, Any]) -> None:
    """All types went there and back, in epoch order, and through a job."""
    assert seen["differing"] == []
    assert [seen[what] for what in ("columns", "rows", "maps", "through")] == [True] * 4
    assert seen["blocks"] == 3
    assert [sorted(epochs) for epochs in seen["epochs"]] == seen["epochs"]
    assert {epoch for epochs in seen["epochs"] for epoch in epochs} == set(range(5))
    assert seen["empty"] == [0, ["id"]]
    assert seen["nothing"] == 0
    assert "columns that Arrow cannot hold: a (interval month)" in seen["foreign"]


def check_warnings(seen: Mapping[str, Any], master: str) -> None:
    """The warning comes once, whatever went through the driver."""
    warnings = [line for line in seen["warnings"] if "pass the driver" in line]
    assert len(warnings) == 1
    assert f"their Spark ({master}) does not run on Ray" in warnings[0]


def test_rows_go_through_the_driver(pytestconfig: pytest.Config) -> None:
    """With Spark 4 by public calls alone; a warning says so once, and ``session`` says what runs already."""
    seen = run_program("plain_session_program", pytestconfig.rootpath)
    check_rows(seen)
    check_warnings(seen, "local[1]")
    assert seen["fed"] == [[0, [0, 0]], [1, [1, 10]], [2, [2, 20]]]
    assert "this process already runs Spark ('plain' on local[1])" in seen["session"]


@NEEDS_CONNECT
def test_rows_of_spark_connect_go_through_its_client(pytestconfig: pytest.Config) -> None:
    """The driver is another process. It would run micro-batches there, so `feed` refuses it."""
    seen = run_program("plain_session_program", pytestconfig.rootpath, "connect")
    check_rows(seen)
    check_warnings(seen, "Spark Connect")
    assert "is of Spark Connect" in seen["fed"]
