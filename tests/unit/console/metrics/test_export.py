"""The thread that passes a job's telemetry on: until the job ends, whatever goes wrong."""

import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any, Self

import pytest

from tests.kit.messages import raises
from tests.kit.telemetry.full_document import document
from tests.waiting import WITHIN_S, eventually
from tidewheel.console.metrics import export, ray_metrics
from tidewheel.console.metrics.export import TelemetryExport
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.subscribers.view import View

JOB = "sums-d24a72a9"


class Reader:
    """Follows a job that has one document, and then goes on, ends, or is lost."""

    lost: Exception | None = None
    goes_on = False

    def __init__(self, job: str, *, timeout_s: float) -> None:
        self.job = job
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[View]:
        yield View(document(), None)
        if self.lost is not None:
            raise self.lost
        if self.goes_on:
            assert self.closed.wait(WITHIN_S)

    def close(self) -> None:
        self.closed.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Target:
    """Keeps what it was shown."""

    def __init__(self, job: str) -> None:
        self.job = job
        self.shown: list[dict[str, Any]] = []
        self.has_ended = False
        made.append(self)

    def show(self, shown: dict[str, Any]) -> None:
        self.shown.append(shown)

    def end(self) -> None:
        self.has_ended = True


made: list[Target] = []


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    made.clear()
    monkeypatch.setattr(export, "TelemetryReader", Reader)
    monkeypatch.setattr(ray_metrics, "RayMetrics", Target)


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_job_is_exported_until_it_or_the_block_ends(monkeypatch: pytest.MonkeyPatch, goes_on: bool) -> None:
    """Whichever comes first; the target learns that nothing more comes."""
    monkeypatch.setattr(Reader, "goes_on", goes_on)
    with TelemetryExport(JOB, "ray") as exported:
        [target] = made
        assert eventually(lambda: target.shown == [document()])
        assert eventually(lambda: target.has_ended != goes_on)
    assert target.has_ended
    exported.close()
    assert target.job == JOB


@pytest.mark.parametrize("lost", [DeliveryError("the publisher is gone"), ValueError("a bug")])
def test_a_job_that_is_lost_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, lost: Exception
) -> None:
    """The program goes on; a thread that ended in silence would leave numbers that look as if they were true."""
    monkeypatch.setattr(Reader, "lost", lost)
    with caplog.at_level(logging.WARNING, logger="tidewheel"), TelemetryExport(JOB, "ray"):
        assert eventually(lambda: made[0].has_ended)
    assert JOB in caplog.text
    assert str(lost) in caplog.text


def test_a_target_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install, or what there is."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with raises(DeliveryError):
        TelemetryExport(JOB, "opentelemetry")
    with raises(DeliveryError):
        TelemetryExport(JOB, "statsd")  # type: ignore[arg-type]


def test_a_target_that_fails_leaves_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job would describe itself, to a subscriber that does not read, until the block ends."""

    def fail(target: Target, shown: dict[str, Any]) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(Target, "show", fail)
    monkeypatch.setattr(Reader, "goes_on", True)
    with TelemetryExport(JOB, "ray") as exported:
        reader: Any = exported._reader
        assert reader.closed.wait(WITHIN_S)
