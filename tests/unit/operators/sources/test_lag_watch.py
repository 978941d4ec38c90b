"""How far the partitions of a source are behind: asked beside the loop, and only while reports are made."""

import logging
import math
from collections.abc import Callable
from typing import Any

import pytest

import tidewheel as tw
from tests.waiting import eventually
from tidewheel.operators.sources import lag_watch
from tidewheel.operators.sources.lag_watch import LagWatch
from tidewheel.runtime.messages.connector_numbers import of_source
from tidewheel.testing import FakeBroker


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_watch, "_EVERY_S", 0.0)


class Told(tw.Source[Any]):
    """Tells of each partition what a function returns for its position."""

    def __init__(self, tell: Callable[[Any], Any]) -> None:
        self.tell = tell
        self.asked: list[Any] = []

    def partitions(self) -> list[str]:
        return []

    def open(self, partition: str | int, position: Any) -> Any:
        return iter(())

    def behind(self, partition: str | int, position: Any) -> Any:
        self.asked.append((partition, position))
        return self.tell(position)


def test_the_lag_of_a_source_is_in_the_reports() -> None:
    """It counts from what the dataflow has to what the broker has, over all partitions and workers."""
    broker = FakeBroker(2)
    flow = tw.Dataflow("lags")
    flow.source("orders", broker.source(look_every_s=0.01)).capture("orders")
    with tw.run(flow, workers=2, engine="local") as job:

        def numbers() -> dict[str, Any]:
            job.run_round()  # type: ignore[attr-defined]
            reports: Any = job._reports()
            return of_source([report.connectors["orders"] for report in reports])

        broker.send(0, "a", "b", "c")
        caught_up = {"partitions": 2, "records": 3, "lag_records": 0}
        assert eventually(lambda: numbers() == caught_up)
        broker.fail(1000)  # nothing is read, and the broker can still tell how much it has
        broker.send(0, "d")
        broker.send(1, "e", "f")
        assert eventually(lambda: numbers().get("lag_records") == 3)
        job.stop()


def test_records_and_bytes_are_added_up_and_the_latest_counts() -> None:
    """Of the partitions that can tell."""
    watch = LagWatch(Told(lambda position: position), "told")
    positions: dict[str | int, Any] = {
        "a": {"records": 3, "seconds": 1.5},
        "b": {"records": 4, "bytes": 10, "seconds": 0.5},
        "c": None,
    }
    try:
        assert watch.look(positions) == {}
        assert eventually(lambda: watch.look(positions) == {"records": 7, "bytes": 10, "seconds": 1.5})
        assert eventually(lambda: watch.look({"a": {"records": 1}}) == {"records": 1})
    finally:
        watch.close()


def test_what_is_ahead_is_not_behind() -> None:
    """The clock of the source may be ahead of that of the broker."""
    watch = LagWatch(Told(lambda position: {"seconds": position, "records": 1}), "told")
    try:
        assert eventually(lambda: watch.look({"a": -0.5}) == {"seconds": 0, "records": 1})
    finally:
        watch.close()


def test_nothing_is_asked_without_a_report() -> None:
    """Each report lets the source be asked once."""
    source = Told(lambda position: {"records": position})
    watch = LagWatch(source, "told")
    try:
        watch.look({"a": 1})
        assert eventually(lambda: source.asked == [("a", 1)])
        watch.look({"a": 2})
        assert eventually(lambda: source.asked == [("a", 1), ("a", 2)])
    finally:
        watch.close()


@pytest.mark.parametrize(
    "answer",
    [
        ConnectionError("no broker"),
        SystemExit("no broker"),
        17,
        {"miles": 3},
        {"records": "3"},
        {"seconds": math.nan},
        {"seconds": math.inf},
    ],
)
def test_an_error_is_logged_once_and_the_job_goes_on(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The lags of other partitions stay known."""

    def tell(position: Any) -> Any:
        if position == "wrong" and isinstance(answer, BaseException):
            raise answer
        return answer if position == "wrong" else {"records": 1}

    source = Told(tell)
    watch = LagWatch(source, "told")
    with caplog.at_level(logging.WARNING):
        try:
            positions: dict[str | int, str] = {"a": "wrong", "b": "right"}
            assert eventually(lambda: watch.look(positions) == {"records": 1} and len(source.asked) > 3)
        finally:
            watch.close()
    [message] = [one for one in caplog.messages if "lag of partition 'a'" in one]
    assert "no broker" in message or "behind returns a dict such as" in message
