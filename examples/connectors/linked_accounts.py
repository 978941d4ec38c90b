"""Accounts that transfers link, live: from Kafka, through a loop that keeps its state, to Postgres and Delta Lake.

Postgres has the group of each account, by its least account. Delta Lake has each change of a group. In a job with
snapshots both have each epoch once, over crashes. Without --kafka the program sends transfers to a broker of its own.
"""

import argparse
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from confluent_kafka import Producer

import tidewheel as tw
from tidewheel.connectors.delta import DeltaSink
from tidewheel.connectors.kafka import Json, KafkaSource
from tidewheel.connectors.postgres import Deleted, PostgresSink

TABLE = "CREATE TABLE IF NOT EXISTS linked (account bigint PRIMARY KEY, least bigint NOT NULL)"


def groups_of(links: tw.Collection) -> tw.Collection:
    """Return pairs (account, least account of its group) for links (one, other)."""

    def spread(labels: tw.Collection) -> tw.Collection:
        return labels.join(arcs, lambda account, least, other: (other, least)).concat(own).reduce_min()

    arcs = links.concat(links.map(lambda link: link[::-1]))
    own = arcs.map(lambda arc: (arc[0], arc[0]))
    return own.reduce_min().iterate(spread)


def link(flow: tw.Dataflow, kafka: str, postgres: str, delta: str, *, bounded: bool = False) -> None:
    """Add all from the topic ``transfers`` to the table ``linked`` of Postgres and a table of Delta Lake."""
    source = KafkaSource(kafka, "transfers", value=Json(), bounded=bounded)
    transfers = flow.source("transfers", source, epoch_every_s=0.2)
    links = transfers.map(lambda record: (record.value["from"], record.value["to"])).as_collection()
    groups = groups_of(links)
    rows = groups.upserts().map(lambda pair: Deleted(pair[0]) if pair[1] is None else pair)
    rows.sink(PostgresSink(postgres, "linked", key="account"), name="into Postgres").probe("in Postgres")
    changes = groups.changes(columns=["account", "least"])
    changes.sink(DeltaSink(delta, name="linked"), name="into Delta Lake").probe("in Delta Lake")


def broker_with(transfers: int) -> tuple[Any, str]:
    """Return a broker for tests, gone with the object, that has so many transfers; and its address."""
    random = Random(1)
    broker = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0})
    for _ in range(transfers):
        one, other = random.randrange(transfers), random.randrange(transfers)
        broker.produce("transfers", b'{"from":%d,"to":%d}' % (one, other))
    broker.flush(30)
    return broker, ",".join(f"{one.host}:{one.port}" for one in broker.list_topics(timeout=10).brokers.values())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kafka", metavar="SERVERS", help="such as broker:9092; the program then runs on")
    parser.add_argument("--postgres", default="", metavar="CONNINFO", help="such as 'service=bank'; else PGHOST ...")
    parser.add_argument("--delta", metavar="URL", help="the folder of the table, such as s3://bank/linked")
    parser.add_argument("--snapshots", metavar="URL", help="where the job keeps its snapshots; by default it has none")
    given = parser.parse_args()
    broker, servers = (None, given.kafka) if given.kafka else broker_with(1000)
    with psycopg.connect(given.postgres) as database:
        database.execute(TABLE)
    with TemporaryDirectory() as folder:
        flow = tw.Dataflow("linked accounts")
        link(flow, servers, given.postgres, given.delta or folder, bounded=broker is not None)
        with tw.run(flow, workers=2, snapshots=given.snapshots) as job:
            job.wait()
    with psycopg.connect(given.postgres) as database:
        query = "SELECT count(*), max(count) FROM (SELECT count(*) FROM linked GROUP BY least) AS groups"
        count, largest = database.execute(query).fetchone() or (0, 0)
    print(f"{count} groups of accounts, the largest of {largest}")
