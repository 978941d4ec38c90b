"""`KafkaSource` on a fake client: transactions, new partitions, times, retention, and brokers that come back."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import tidewheel as tw
from tests.kit.connectors.files_by_name import ByBaseName
from tests.kit.kafka.fake_kafka import FakeConsumer, FakeKafka
from tests.kit.kafka.running import run_until
from tests.kit.messages import raises
from tidewheel.connectors.kafka import KafkaError, KafkaRecord, KafkaSource
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


def test_start_says_where_partitions_begin() -> None:
    """Those that it does not name begin at their first record, and a snapshot's position counts before it."""
    kafka = FakeKafka("here", tides=2)
    kafka.send("tides", 0, b"a", b"b", b"c")
    kafka.send("tides", 1, b"d", b"e")
    source = KafkaSource("here", "tides", start={"tides/0": 2}, bounded=True)
    assert values(source) == [b"c", b"d", b"e"]
    [fetched] = [one for one in source.open("tides/0", (1, 3)) if isinstance(one, tw.Fetched)]
    assert [one.value for one in fetched.batch] == [b"b", b"c"]


@pytest.mark.parametrize("offset", [1, 4], ids=["deleted", "future"])
def test_a_start_that_would_leave_a_gap_is_refused(offset: int) -> None:
    """The records between are gone, or not there yet."""
    kafka = FakeKafka("here", tides=1)
    kafka.send("tides", 0, b"a", b"b", b"c")
    kafka.delete_before("tides", 0, 2)
    with raises(KafkaError):
        next(KafkaSource("here", "tides", start={"tides/0": offset}).open("tides/0", None))


def test_a_start_of_no_partition_is_refused() -> None:
    """It may be misspelled, and the right one would begin at its first record."""
    kafka = FakeKafka("here", tides=1)
    with raises(KafkaError):
        KafkaSource("here", "tides", start={"tides/7": 0}).partitions()
    del kafka  # it lives as long as the test


@pytest.mark.parametrize("bounded", [True, pytest.param(False, marks=pytest.mark.long)], ids=["bounded", "running"])
def test_files_and_then_a_topic_keep_the_contract(bounded: bool) -> None:
    """The topic is read from the offset behind the last record that the files have, once they are read."""
    made: dict[str, FakeKafka] = {}
    files = {"first.txt": ["a", "b"], "second.txt": ["c"]}

    def make(folder: Path) -> tw.Source[Any]:
        made[str(folder)] = kafka = FakeKafka(str(folder), tides=2)
        kafka.send("tides", 0, b"a", b"b", b"d")
        kafka.send("tides", 1, b"c")
        (folder / "files").mkdir()
        for name, lines in files.items():
            (folder / "files" / name).write_text("".join(f"{line}\n" for line in lines))
        live = KafkaSource(str(folder), "tides", start={"tides/0": 2, "tides/1": 1}, bounded=bounded)
        return ByBaseName(folder / "files").then(live)

    def grow(folder: Path) -> None:
        kafka = made[str(folder)]
        kafka.send("tides", 1, b"e")
        kafka.add_partition("tides")
        kafka.send("tides", 2, b"f")

    records: dict[str | int, list[Any]] = {f"history/{name}": lines for name, lines in files.items()}
    records["live/tides/0"] = [record(b"d", 0, 2)]
    if not bounded:
        records["live/tides/1"] = [record(b"e", 1, 1)]
        records["live/tides/2"] = [record(b"f", 2, 0)]
    check_source(make, records, grow=None if bounded else grow)


def test_it_tells_how_far_a_partition_is_behind() -> None:
    """Up to the end of the partition or, if it is bounded, of the read; at first from where reading begins."""
    kafka = FakeKafka("here", tides=1)
    kafka.send("tides", 0, b"a", b"b", timestamp_ms=1_000)
    kafka.send("tides", 0, b"c", timestamp_ms=2_000)
    source = KafkaSource("here", "tides")
    assert source.behind("tides/0", (1, None)) == {"records": 2}
    kafka.send("tides", 0, b"d", timestamp_ms=3_000)
    assert source.behind("tides/0", (1, None)) == {"records": 3}
    assert source.behind("tides/0", (4, None)) == {"records": 0}
    source.close()
    assert KafkaSource("here", "tides", bounded=True).behind("tides/0", (1, 3)) == {"records": 2}
    late = KafkaSource("here", "tides", since=datetime.fromtimestamp(2, UTC))
    assert late.behind("tides/0", None) == {"records": 2}


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
