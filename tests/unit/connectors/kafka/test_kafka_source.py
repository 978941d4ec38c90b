"""`KafkaSource` on librdkafka's mock cluster."""

import pickle
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import tidewheel as tw
from tests.kit.kafka.mock_cluster import MockCluster, unused_address
from tests.kit.kafka.running import run_until
from tests.kit.messages import raises
from tidewheel.connectors.kafka import Json, KafkaError, KafkaRecord, KafkaSource
from tidewheel.host.retry import Retry
from tidewheel.testing import check_source

FAST = {"fetch.wait.max.ms": 5}
"""The broker answers soon, also if it has nothing."""


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    cluster = MockCluster()
    yield cluster
    cluster.close()


def bounded(cluster: MockCluster, **more: Any) -> KafkaSource:
    return KafkaSource(cluster.servers, "tides", bounded=True, config=FAST, **more)


def records_of(source: tw.Source[Any], workers: int = 2) -> list[KafkaRecord]:
    """Return what a job reads."""
    flow = tw.Dataflow("tides")
    flow.source("tides", source).capture("tides")
    with tw.run(flow, workers=workers, engine="local") as job:
        job.wait(timeout_s=30)
        return [record for captured in job.captured("tides") for record in captured.batch]


def read(source: KafkaSource, partition: str, position: Any = None) -> Iterator[tuple[list[Any], Any]]:
    """Yield the values and positions that a partition yields."""
    for fetched in source.open(partition, position):
        if isinstance(fetched, tw.Fetched):
            yield [record.value for record in fetched.batch], fetched.position


def test_records_have_key_headers_and_timestamp(cluster: MockCluster) -> None:
    cluster.send("tides", [(b'{"hour":4}', b"Brest")], partition=1, timestamp_ms=1_000, headers={"from": b"\xff"})
    cluster.send("tides", [(None, b"Dover")], partition=1, timestamp_ms=2_000)
    assert records_of(bounded(cluster, value=Json())) == [
        KafkaRecord({"hour": 4}, b"Brest", (("from", b"\xff"),), 1_000, "tides", 1, 0),
        KafkaRecord(None, b"Dover", (), 2_000, "tides", 1, 1),
    ]


def test_a_bounded_read_has_all_records_of_all_topics_in_order(cluster: MockCluster) -> None:
    """More records than a batch or a worker's memory; a bounded read that reads nothing would pass no test here."""
    for topic in ("tides", "winds"):
        for partition in range(3):
            cluster.send(topic, [(b"%d" % n, None) for n in range(3_000)], partition=partition)
    source = KafkaSource(cluster.servers, ["tides", "winds"], value=Json(int), bounded=True, config=FAST)
    found: dict[Any, list[int]] = {}
    for record in records_of(source, workers=3):
        found.setdefault((record.topic, record.partition), []).append(record.value)
    assert found == {(topic, n): list(range(3_000)) for topic in ("tides", "winds") for n in range(3)}


def test_an_empty_topic_ends(cluster: MockCluster) -> None:
    cluster.send("tides", [])
    cluster.send("tides", [(b"1", None)], partition=3)
    assert [record.partition for record in records_of(bounded(cluster))] == [3]


def test_a_bounded_read_ends_where_the_topic_ended(cluster: MockCluster) -> None:
    """Also when it goes on from a position, with another object, behind records that came later."""
    cluster.send("tides", [(b"%d" % n, None) for n in range(1_500)])
    reading = read(bounded(cluster), "tides/0")
    values, position = next(reading)
    cluster.send("tides", [(b"late", None)])
    for more, _ in reading:
        values += more
    assert values == [b"%d" % n for n in range(1_500)]
    rest = [value for values, _ in read(bounded(cluster), "tides/0", position) for value in values]
    assert rest == [b"%d" % n for n in range(position[0], 1_500)]
    assert [values for values, _ in read(bounded(cluster), "tides/0", (10, 12))] == [[b"10", b"11"]]


def test_it_asks_the_brokers_how_far_it_is_behind(cluster: MockCluster) -> None:
    """With the client itself, while another one reads; what comes meanwhile counts, and after an end it begins anew."""
    cluster.send("tides", [(b"1", None), (b"2", None)])
    source = KafkaSource(cluster.servers, "tides", start={"tides/0": 1})
    assert source.behind("tides/0", None) == {"records": 1}
    cluster.send("tides", [(b"3", None)])
    assert source.behind("tides/0", (1, None)) == {"records": 2}
    source.close()
    assert source.behind("tides/0", (3, None)) == {"records": 0}
    source.close()


@pytest.mark.parametrize(("partitions", "count"), [([0], 2), pytest.param([0, 2], 3, marks=pytest.mark.long)])
def test_it_keeps_the_contract_of_sources(partitions: list[int], count: int) -> None:
    """Crashes, errors and delays at each call; each run has a cluster of its own."""
    clusters: list[MockCluster] = []
    sent: dict[str | int, list[KafkaRecord]] = {
        f"tides/{n}": [KafkaRecord(b"%d" % i, None, (), 7, "tides", n, i) for i in range(count)] for n in partitions
    }

    def make(folder: Path) -> KafkaSource:
        if clusters:
            clusters.pop().close()
        clusters.append(MockCluster())
        for records in sent.values():
            values = [(record.value, None) for record in records]
            clusters[0].send("tides", values, partition=records[0].partition or 0, timestamp_ms=7)
        return bounded(clusters[0], group="tides")

    check_source(make, sent)
    clusters.pop().close()


def test_a_running_job_reads_what_comes_and_commits_what_is_saved(cluster: MockCluster, tmp_path: Path) -> None:
    """Lag tools see no lag once a snapshot has the positions; none is committed before."""
    cluster.send("tides", [(b"1", None), (b"2", None)])
    found: list[KafkaRecord] = []
    flow = tw.Dataflow("tides")
    flow.source("tides", KafkaSource(cluster.servers, "tides", group="lag", config=FAST)).inspect(found.append)
    job: Any = tw.run(flow, engine="local", snapshots=tw.Snapshots(tmp_path, every_s=1e9))
    with job:
        run_until(job, lambda: len(found) == 2)
        cluster.send("tides", [(b"3", None)], partition=1)
        run_until(job, lambda: len(found) == 3)
        assert cluster.committed("lag", "tides") == {}
        job.snapshot(timeout_s=10)
        run_until(job, lambda: cluster.committed("lag", "tides").items() >= {0: 2, 1: 1}.items())
        job.stop()


def test_committed_offsets_decide_nothing(cluster: MockCluster) -> None:
    """Not even those of the same group: the snapshot has the position, or there is none."""
    cluster.send("tides", [(b"1", None), (b"2", None)])
    source = bounded(cluster, group="lag")
    source.saved("tides/0", (2, 2))
    source.close()
    assert cluster.committed("lag", "tides") == {0: 2}
    assert [values for values, _ in read(source, "tides/0")] == [[b"1", b"2"]]


def test_since_leaves_out_earlier_records(cluster: MockCluster) -> None:
    """The mock cluster looks up no times, and answers that there are no such records; see also test_on_fake.py."""
    cluster.send("tides", [(b"early", None)], timestamp_ms=1)
    source = KafkaSource(cluster.servers, "tides", since=datetime.now(UTC), config=FAST)
    opened = read(source, "tides/0")
    assert next(opened) == ([], (1, None))
    cluster.send("tides", [(b"late", None)])
    assert next(opened) == ([b"late"], (2, None))


# ---------------------------------------------------------------------- bad ends


def test_an_unknown_topic_fails_the_job(cluster: MockCluster) -> None:
    with raises(tw.JobError) as caught:
        records_of(bounded(cluster))
    assert isinstance(caught.value.__cause__, KafkaError)


def test_wrong_credentials_fail_the_job_soon(cluster: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mock cluster knows no SASL; no word of the error has the password."""
    monkeypatch.setenv("TIDES_PASSWORD", "correct-horse")
    config = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": tw.Secret("TIDES_PASSWORD"),
    }
    began_s = time.monotonic()
    with raises(tw.JobError) as caught:
        records_of(KafkaSource(cluster.servers, "tides", config=config))
    assert time.monotonic() - began_s < 9
    assert "correct-horse" not in repr(caught.value.__cause__)


def test_a_broker_that_speaks_no_tls_fails_the_job(cluster: MockCluster) -> None:
    with raises(tw.JobError):
        records_of(KafkaSource(cluster.servers, "tides", config={"security.protocol": "SSL"}))


def test_no_broker_is_an_error_that_may_pass() -> None:
    """So the job waits for the broker, with log lines that say so."""
    source = KafkaSource(unused_address(), "tides")
    with raises(ConnectionError):
        source.partitions()


def test_a_broker_that_goes_away_is_waited_for(cluster: MockCluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.send("tides", [(b"1", None)])
    source = KafkaSource(cluster.servers, "tides", config=FAST)
    source.retry = Retry(attempts=2, first_pause_s=0.01, on=ConnectionError)
    found: list[KafkaRecord] = []
    flow = tw.Dataflow("tides")
    flow.source("tides", source).inspect(found.append)

    def drive(job: Any) -> None:
        with job:
            run_until(job, lambda: found)
            cluster.close()
            run_until(job, lambda: False)

    with pytest.raises(tw.JobError) as caught:
        drive(tw.run(flow, engine="local"))
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert "is opened again" in caplog.text
    assert cluster.servers in caplog.text


def test_a_commit_without_a_broker_is_given_up_soon(cluster: MockCluster) -> None:
    """Neither that nor the close of the client waits as long as the client would by itself, a minute."""
    cluster.send("tides", [(b"1", None)])
    source = KafkaSource(cluster.servers, "tides", group="lag")
    source.saved("tides/0", (1, None))
    cluster.close()
    began_s = time.monotonic()
    with pytest.raises(ConnectionError):
        source.saved("tides/0", (1, None))
    source.close()
    assert time.monotonic() - began_s < 15


def test_a_record_that_cannot_be_read_is_named(cluster: MockCluster) -> None:
    cluster.send("tides", [(b"1", None), (b"poison", None)], partition=2)
    with raises(tw.JobError):
        records_of(bounded(cluster, value=Json(int)))


def test_a_key_that_cannot_be_read_is_named(cluster: MockCluster) -> None:
    cluster.send("tides", [(b"1", b"poison")])
    [fetched] = bounded(cluster, key=Json(int)).open("tides/0", None)
    assert isinstance(fetched, tw.Fetched)
    [refused] = fetched.refused
    with raises(KafkaError):
        raise refused.error


def test_a_poisoned_message_is_a_letter(cluster: MockCluster) -> None:
    """With the bytes of its key and value, and its place; the messages around it are read."""
    cluster.send("tides", [(b"1", b"7"), (b"poison", b"8"), (b"3", b"key"), (b"4", None)], partition=2)
    flow = tw.Dataflow("tides")
    letters = flow.dead_letters()
    source = bounded(cluster, value=Json(int), key=Json(int))
    flow.source("tides", source, dead_letters=letters).map(lambda record: record.value).capture("values")
    letters.capture("letters")
    with tw.run(flow, workers=2, engine="local") as job:
        job.wait(timeout_s=30)
        values = [value for captured in job.captured("values") for value in captured.batch]
        found = [letter for captured in job.captured("letters") for letter in captured.batch]
    assert values == [1, 4]
    assert [(letter.record.value, letter.record.key, letter.record.offset) for letter in found] == [
        (b"poison", b"8", 1),
        (b"3", b"key", 2),
    ]
    assert [letter.where for letter in found] == [f"tides, partition 'tides/2', offset {n}" for n in (1, 2)]
    assert {letter.error for letter in found} == {"KafkaError"}


def test_records_that_were_deleted_are_an_error(cluster: MockCluster) -> None:
    """The position is not in the topic any more, or not yet again; config says what else is right."""
    cluster.send("tides", [(b"1", None)])
    with raises(KafkaError):
        list(bounded(cluster).open("tides/0", (500, 600)))
    config = {**FAST, "auto.offset.reset": "earliest"}
    source = KafkaSource(cluster.servers, "tides", config=config)
    assert next(read(source, "tides/0", (500, None))) == ([b"1"], (1, None))


def test_an_unknown_property_is_an_error(cluster: MockCluster) -> None:
    with raises(KafkaError):
        KafkaSource(cluster.servers, "tides", config={"fetch.wait": 5}).partitions()


@pytest.mark.parametrize(
    "given",
    [
        {"servers": ""},
        {"topics": []},
        {"since": datetime.now(UTC).replace(tzinfo=None)},
        {"config": {"sasl.password": "correct-horse"}},
        {"config": {"group.id": "tides"}},
        {"start": {"tide/0": 1}},
        {"start": {"tides": 1}},
        {"start": {"tides/0": -1}},
    ],
    ids=["servers", "topics", "since", "password", "group", "topic", "number", "offset"],
)
def test_wrong_arguments_are_refused(given: dict[str, Any]) -> None:
    if given.get("since"):
        given["since"] = datetime(2026, 11, 29)  # noqa: DTZ001 - that is wrong
    with raises(tw.GraphError) as caught:
        KafkaSource(**{"servers": "broker:9092", "topics": "tides", **given})
    assert "correct-horse" not in str(caught.value)


def test_a_pickled_source_has_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDES_PASSWORD", "correct-horse")
    source = KafkaSource("broker:9092", "tides", config={"sasl.password": tw.Secret("TIDES_PASSWORD")})
    assert b"correct-horse" not in cloudpickle.dumps(source)
    assert "correct-horse" not in repr(vars(source))


def test_a_record_can_be_pickled() -> None:
    record = KafkaRecord({"hour": 4}, b"Brest", (("a", b"b"),), 7, "tides", 1, 2)
    assert pickle.loads(pickle.dumps(record)) == record
