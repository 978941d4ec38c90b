"""`KafkaSource` on the broker that ``TIDEWHEEL_KAFKA`` names: what neither mock cluster nor tansu does."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

import tidewheel as tw
from tests.kit.kafka.running import run_until
from tests.kit.kafka.tansu import REAL, Broker
from tidewheel.connectors.kafka import KafkaSource

pytestmark = pytest.mark.skipif(REAL is None, reason="TIDEWHEEL_KAFKA names no broker")


@pytest.fixture
def broker() -> Broker:
    assert REAL is not None, "or the test is skipped"
    return Broker(REAL, is_real=True)


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"tides-{uuid4().hex}"
    broker.make(name, partitions=1)
    return name


def values(source: KafkaSource) -> list[bytes]:
    """Return what a bounded job reads."""
    flow = tw.Dataflow("tides")
    flow.source("tides", source).map(lambda record: record.value).capture("tides")
    with tw.run(flow, engine="local") as job:
        job.wait(timeout_s=60)
        return [value for captured in job.captured("tides") for value in captured.batch]


def producer(broker: Broker, **config: Any) -> Any:
    return confluent_kafka.Producer({"bootstrap.servers": broker.servers, **config})


def test_aborted_and_open_transactions_are_not_read(broker: Broker, topic: str) -> None:
    """And a bounded read ends, although the last offsets of the topic are marks that no reader sees."""
    writer = producer(broker, **{"transactional.id": topic})
    writer.init_transactions(30)
    for value, commit in ((b"a", True), (b"no", False), (b"b", True)):
        writer.begin_transaction()
        writer.produce(topic, value)
        writer.flush()
        writer.commit_transaction(30) if commit else writer.abort_transaction(30)
    assert values(KafkaSource(broker.servers, topic, bounded=True)) == [b"a", b"b"]
    writer.begin_transaction()
    writer.produce(topic, b"open")
    writer.flush()
    assert values(KafkaSource(broker.servers, topic, bounded=True)) == [b"a", b"b"]
    writer.abort_transaction(30)


def test_since_begins_at_a_time(broker: Broker, topic: str) -> None:
    writer = producer(broker)
    for timestamp_ms, value in ((1_000, b"early"), (2_000, b"late"), (3_000, b"later")):
        writer.produce(topic, value, timestamp=timestamp_ms)
    writer.flush()
    since = datetime.fromtimestamp(2, UTC)
    assert values(KafkaSource(broker.servers, topic, since=since, bounded=True)) == [b"late", b"later"]
    assert values(KafkaSource(broker.servers, topic, since=datetime.now(UTC), bounded=True)) == []


def test_a_new_partition_is_found_and_read_from_its_first_record(broker: Broker, topic: str) -> None:
    source = KafkaSource(broker.servers, topic)
    source.look_every_s = 0.2
    found: list[bytes] = []
    flow = tw.Dataflow("tides")
    flow.source("tides", source).inspect(lambda record: found.append(record.value))
    job: Any = tw.run(flow, engine="local")
    with job:
        writer = producer(broker)
        writer.produce(topic, b"old")
        writer.flush()
        run_until(job, lambda: found == [b"old"])
        admin: Any = AdminClient({"bootstrap.servers": broker.servers})
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
        fresh = producer(broker)
        fresh.produce(topic, b"new", partition=1)
        fresh.flush()
        run_until(job, lambda: found == [b"old", b"new"])
        job.stop()
