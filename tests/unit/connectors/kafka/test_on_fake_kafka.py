"""`KafkaSource` on a fake client: transactions, new partitions, times, retention, and brokers that come back."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import tidewheel as tw
from tests.kit.kafka.fake_kafka import FakeConsumer, FakeKafka
from tests.kit.kafka.running import run_until
from tidewheel.connectors.kafka import KafkaRecord, KafkaSource
from tidewheel.host.retry import Retry
from tidewheel.testing import check_source


@pytest.fixture(autouse=True)
def fake_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confluent_kafka, "Consumer", FakeConsumer)


def values(source: KafkaSource) -> list[bytes]:
    """Return what a bounded job reads."""
    flow = tw.Dataflow("tides")
    flow.source("tides", source).map(lambda record: record.value).capture("tides")
    with tw.run(flow, engine="local") as job:
        job.wait(timeout_s=20)
        return sorted(value for captured in job.captured("tides") for value in captured.batch)


def record(value: bytes, partition: int, offset: int) -> KafkaRecord:
    return KafkaRecord(value, None, (), 0, "tides", partition, offset)


def with_transactions(kafka: FakeKafka) -> None:
    kafka.send("tides", 0, b"a", b"b", transaction=1)
    kafka.send("tides", 0, b"no", transaction=2)
    kafka.send("tides", 0, b"c")
    kafka.end(1, commit=True)
    kafka.end(2, commit=False)


def test_only_committed_records_are_read() -> None:
    """A bounded read ends although the last offsets are marks, which no reader sees, and at an open transaction."""
    kafka = FakeKafka("here", tides=1)
    with_transactions(kafka)
    assert values(KafkaSource("here", "tides", bounded=True)) == [b"a", b"b", b"c"]
    kafka.send("tides", 0, b"open", transaction=3)
    kafka.send("tides", 0, b"behind it")
    assert values(KafkaSource("here", "tides", bounded=True)) == [b"a", b"b", b"c"]
    kafka.end(3, commit=True)
    assert values(KafkaSource("here", "tides", bounded=True)) == [b"a", b"b", b"behind it", b"c", b"open"]


def test_the_last_position_is_behind_the_marks() -> None:
    """So lag tools show none."""
    kafka = FakeKafka("here", tides=1)
    with_transactions(kafka)
    *_, last = KafkaSource("here", "tides", bounded=True).open("tides/0", None)
    assert isinstance(last, tw.Fetched)
    assert last.position == (6, 6)


@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "running"])
def test_it_keeps_the_contract_with_transactions_and_new_partitions(bounded: bool) -> None:
    """A partition that is found while the job runs is read from its first record."""
    made: dict[str, FakeKafka] = {}
    sent: dict[str | int, list[Any]] = {
        "tides/0": [record(b"a", 0, 0), record(b"b", 0, 1), record(b"c", 0, 3)],
        "tides/1": [record(b"d", 1, 0)],
    }
    if not bounded:
        sent["tides/2"] = [record(b"e", 2, 0), record(b"f", 2, 1)]
        sent["tides/1"] = [*sent["tides/1"], record(b"g", 1, 1)]

    def make(folder: Path) -> KafkaSource:
        made[str(folder)] = kafka = FakeKafka(str(folder), tides=2)
        with_transactions(kafka)
        kafka.send("tides", 1, b"d")
        return KafkaSource(str(folder), "tides", bounded=bounded)

    def grow(folder: Path) -> None:
        kafka = made[str(folder)]
        kafka.add_partition("tides")
        kafka.send("tides", 2, b"e", b"f", transaction=4)
        kafka.end(4, commit=True)
        kafka.send("tides", 1, b"g")

    check_source(make, sent, grow=None if bounded else grow)


def test_since_begins_at_a_time() -> None:
    """In each partition at its first record of that time or later, and behind all if there is none."""
    kafka = FakeKafka("here", tides=2)
    kafka.send("tides", 0, b"early", timestamp_ms=1_000)
    kafka.send("tides", 0, b"late", b"later", timestamp_ms=2_000)
    kafka.send("tides", 1, b"early, too", timestamp_ms=1_999)
    since = datetime.fromtimestamp(2, UTC)
    assert values(KafkaSource("here", "tides", since=since, bounded=True)) == [b"late", b"later"]


def test_a_first_record_that_is_deleted_meanwhile_is_none() -> None:
    """Between the look at the offsets and the first read, retention takes two records."""
    kafka = FakeKafka("here", tides=1)
    kafka.send("tides", 0, b"a", b"b", b"c")
    kafka.on_assign = lambda: kafka.delete_before("tides", 0, 2)
    source = KafkaSource("here", "tides", bounded=True)
    source.retry = Retry(attempts=2, first_pause_s=0, on=ConnectionError)
    assert values(source) == [b"c"]


def test_a_broker_that_comes_back_is_read_on(caplog: pytest.LogCaptureFixture) -> None:
    """No record is lost or read twice."""
    kafka = FakeKafka("here", tides=1)
    kafka.send("tides", 0, b"a")
    found: list[bytes] = []
    source = KafkaSource("here", "tides")
    source.retry = Retry(within_s=20, first_pause_s=0.001, longest_pause_s=0.001, on=ConnectionError)
    flow = tw.Dataflow("tides")
    flow.source("tides", source).inspect(lambda record: found.append(record.value))
    job: Any = tw.run(flow, engine="local")
    with job:
        run_until(job, lambda: found == [b"a"])
        kafka.is_down = True
        kafka.send("tides", 0, b"b")
        run_until(job, lambda: "is opened again" in caplog.text)
        kafka.is_down = False
        kafka.send("tides", 0, b"c")
        run_until(job, lambda: found == [b"a", b"b", b"c"])
        job.stop()
