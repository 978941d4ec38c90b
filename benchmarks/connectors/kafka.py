"""The time in which a job on the local engine reads a topic of Kafka, beside a bare loop of ``Consumer.consume``.

Both read all records from librdkafka's mock cluster, which is in a process of its own and keeps 4 MB of each of four
partitions. One loop only counts messages. The other looks at what a record of the source has: value, key, headers,
timestamp and offset. The time of the job has its start and its end.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any
from uuid import uuid4

import confluent_kafka

import tidewheel as tw
from benchmarks.measuring.measurement import Report, alternate, arguments
from tidewheel.connectors.kafka import Json, KafkaSource

LIMIT = 1.25
"""How much longer the job may take than the loop that reads the same: a rate of 0.8."""

PARTITIONS = 4
RECORDS = 120_000
VALUE = b'{"town":"Brest","hour":4,"height_m":6.25}'

CLUSTER = """
import sys, confluent_kafka
cluster = confluent_kafka.Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0})
print(*(f"{one.host}:{one.port}" for one in cluster.list_topics(timeout=10).brokers.values()), sep=",", flush=True)
sys.stdin.read()
"""


def main() -> None:
    options = arguments("Measure how fast a job reads a topic of Kafka, beside a bare loop.")
    report = Report()
    command = [sys.executable, "-c", CLUSTER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        servers = process.stdout.readline().strip()
        fill(servers)
        contestants: dict[str, Callable[[], float]] = {
            "count": partial(loop_s, servers, reads=False),
            "loop": partial(loop_s, servers, reads=True),
            "job": partial(job_s, servers, None),
            "json": partial(job_s, servers, Json()),
        }
        for contestant in contestants.values():
            contestant()  # warm
        times = alternate(contestants, 5 if options.quick else 21)
        process.communicate("")
    report.add(f"a loop that counts {RECORDS:,} messages", times["count"], "s")
    bare_s = report.add("a loop that reads value, key, headers, timestamp, offset", times["loop"], "s")
    took_s = report.add("a job with KafkaSource", times["job"], "s")
    report.add("a job with KafkaSource, decoding JSON", times["json"], "s")
    report.add("records a second of the job", [RECORDS / took_s], "1/s")
    report.expect("the time of the job over that of the loop that reads the same", took_s / bare_s, LIMIT)
    report.finish(options.json)


def fill(servers: str) -> None:
    """Send the records."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": RECORDS})
    for number in range(RECORDS):
        producer.produce("tides", VALUE, b"Brest", number % PARTITIONS)
    producer.flush()


def loop_s(servers: str, *, reads: bool) -> float:
    """Return the seconds in which a bare loop reads all messages."""
    began_s, found = time.perf_counter(), 0
    config = {"bootstrap.servers": servers, "group.id": uuid4().hex, "enable.auto.commit": False}
    reader: Any = confluent_kafka.Consumer(config)
    with closing(reader) as consumer:
        consumer.assign([confluent_kafka.TopicPartition("tides", number, 0) for number in range(PARTITIONS)])
        while found < RECORDS:
            messages = [message for message in consumer.consume(1000, 0.01) if message.error() is None]
            found += len(messages)
            if reads:
                for one in messages:
                    one.value(), one.key(), one.headers(), one.timestamp(), one.offset()
    return time.perf_counter() - began_s


def job_s(servers: str, value: Json | None) -> float:
    """Return the seconds in which a job reads all records."""
    began_s = time.perf_counter()
    flow = tw.Dataflow("tides")
    source = KafkaSource(servers, "tides", value=value, bounded=True)
    flow.source("tides", source).map_batches(lambda batch: [len(batch)]).capture("numbers")
    with tw.run(flow, engine="local") as job:
        job.wait(timeout_s=60)
        found = sum(number for captured in job.captured("numbers") for number in captured.batch)
    assert found == RECORDS, f"{found} records instead of {RECORDS}"
    return time.perf_counter() - began_s


if __name__ == "__main__":
    main()
