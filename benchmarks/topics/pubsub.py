"""The latency and the throughput from an operator to subscribers: tidewheel and message brokers.

- Latency: an operator sends 2,000 small records a second, each a batch and an epoch of its own; 200 or 20 where there
  are 10 or 100 subscribers, which is as many deliveries. Each has the time in it, taken just before its ``send``; a
  subscriber in a process of its own looks at the clock when it has the record, decoded. For even times the worker has
  one thread more, which sleeps and activates the operator; other publishers sleep themselves.
- Throughput: an operator sends as fast as it goes: Arrow tables of 10,000 rows, or lists of 1,000 tuples. A turn takes
  from before the first is sent until every subscriber has had, and decoded, the last. What is counted is what came, at
  all subscribers together; what did not is said. A subscriber of tidewheel holds back what it cannot take in time.

Beside it, in turn, from one process to as many subscribers as tidewheel has, in as many processes: Redis pub/sub and
Redis Streams over a Unix socket, with hiredis and pipelines of 32; NATS; and the floor, a bare ZeroMQ socket for each
subscriber. They encode tables as tidewheel does, and lists as MessagePack. The servers are those that are installed,
``apt-get install redis-server nats-server``, started for this; their clients come with the extra ``bench``. A peer that
is missing is said to be. 10 subscribers are in two processes, 100 in four: each in a thread, or those of NATS in one
event loop a process.
"""

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import tidewheel as tw
from benchmarks.contestants.pubsub_peers import TOPIC
from benchmarks.contestants.topic_contestants import (
    TurnOf,
    job_turn,
    measure_latency,
    peer_turn,
    say,
    seconds,
    started_servers,
    take_turns,
)
from benchmarks.contestants.topic_job import produced
from benchmarks.measuring.measurement import Report, arguments
from benchmarks.measuring.peer_processes import PeerMissingError
from benchmarks.measuring.pubsub_traffic import Kind, Order, encoded_bytes, prepare
from benchmarks.measuring.transport_floor import ray_cluster

OURS, FLOOR, PEER = "tidewheel", "bare ZeroMQ", "Redis pub/sub"
BROKERS = {PEER: "redis", "Redis Streams": "streams", "NATS": "nats"}
SERVERS = {"redis": "redis", "streams": "redis", "nats": "nats"}
SCRIPT = "contestants.pubsub_peers"
DELIVERIES_A_SECOND = 2000
NAMES: dict[Kind, str] = {"tables": "Arrow tables", "lists": "lists of tuples"}


class Size(NamedTuple):
    """How much is measured.

    Attributes:
        rounds: how often, at a steady pace.
        seconds: for how long.
        fast_rounds: how often as fast as it goes, which varies more.
        tables, lists: how many a turn then, by the numbers of subscribers.
    """

    rounds: int
    seconds: float
    fast_rounds: int
    tables: dict[int, int]
    lists: dict[int, int]


FULL = Size(9, 3.0, 25, tables={1: 800, 10: 200, 100: 20}, lists={1: 2000})
QUICK = Size(1, 0.3, 1, tables={1: 60, 10: 12}, lists={1: 200})


def main() -> None:
    options = arguments("Measure how long messages take to subscribers, and how many get there.")
    report = Report()
    with TemporaryDirectory(prefix="pubsub-") as folder, ray_cluster(), ExitStack() as running:
        servers = started_servers(running, dict.fromkeys(SERVERS.values()), Path(folder))
        addresses = {name: server.address for name, server in servers.items()}
        measure(report, running, addresses, Path(folder), QUICK if options.quick else FULL)
    report.finish(options.json)


def measure(report: Report, running: ExitStack, servers: dict[str, str], folder: Path, size: Size) -> None:
    """Let the contestants take turns, with more and more subscribers."""
    prepare()
    job = running.enter_context(deploy())
    running.callback(job.stop)
    brokers = {name: servers[SERVERS[peer]] for name, peer in BROKERS.items() if SERVERS[peer] in servers}
    for subscribers in size.tables:
        sockets = folder / str(subscribers)
        sockets.mkdir()
        with ExitStack() as connected:
            contestants: dict[str, TurnOf] = {OURS: job_turn(connected, SCRIPT, job, TOPIC, OURS, subscribers)}
            for name, address in [*brokers.items(), (FLOOR, str(sockets))]:
                try:
                    contestants[name] = peer_turn(connected, SCRIPT, BROKERS.get(name, "zeromq"), address, subscribers)
                except PeerMissingError as error:
                    print(f"{name}: missing ({error})")
                    brokers.pop(name, None)
            compare(report, contestants, subscribers, size)


def compare(report: Report, contestants: dict[str, TurnOf], subscribers: int, size: Size) -> None:
    """Measure all that there is to be measured with so many subscribers."""
    rate = DELIVERIES_A_SECOND // subscribers
    order = Order("stamps", max(2, int(rate * size.seconds)), rate)
    middle = measure_latency(report, contestants, subscribers, order, size.rounds)
    if subscribers == 1:
        report.expect(f"{say(subscribers)}, {rate:,} messages/s, {OURS}: p50, us", middle[OURS], 1000)
        if PEER in middle:
            ratio = middle[OURS] / middle[PEER]
            report.expect(f"{say(subscribers)}, {rate:,} messages/s: p50 of {OURS} and of {PEER}, ratio", ratio, 1.5)
    sent: dict[Kind, dict[int, int]] = {"tables": size.tables, "lists": size.lists}
    for kind, messages in sent.items():
        if subscribers in messages:
            measure_throughput(report, contestants, subscribers, Order(kind, messages[subscribers]), size.fast_rounds)


def measure_throughput(
    report: Report, contestants: dict[str, TurnOf], subscribers: int, order: Order, rounds: int
) -> None:
    """Report how many records and bytes a second came, at all subscribers together."""
    what = f"{say(subscribers)}, {NAMES[order.kind]}"
    size = encoded_bytes(order)
    rates: dict[str, float] = {}
    for name, turns in take_turns(contestants, order, rounds).items():
        times = [seconds(turn) for turn in turns]
        records = [sum(receipt.records for receipt in turn) for turn in turns]
        messages = [sum(receipt.messages for receipt in turn) for turn in turns]
        report.add(f"{what}, {name}: records", [n / s for n, s in zip(records, times, strict=True)], "records/s")
        figures = [n * size / s / 1e6 for n, s in zip(messages, times, strict=True)]
        rates[name] = report.add(f"{what}, {name}: bytes", figures, "MB/s")
        lost = [subscribers * order.messages - n for n in messages]
        if any(lost):
            report.add(f"{what}, {name}: lost of {subscribers * order.messages:,} messages", lost, "messages")
    if PEER in rates and order.kind == "tables" and subscribers == 1:
        report.expect(f"{what}: bytes a second by {PEER} and by {OURS}, ratio", rates[PEER] / rates[OURS], 1)
    best = max((name for name in rates if name in BROKERS), key=rates.__getitem__, default=None)
    if best is not None and order.kind == "tables" and subscribers in {1, 10}:
        report.expect(f"{what}: bytes a second by the best broker and by {OURS}, ratio", rates[best] / rates[OURS], 1)


def deploy() -> tw.types.Job:
    """Run a job with an operator that takes orders, and a topic for what it sends."""
    flow = tw.Dataflow("pubsub")
    produced(flow, TOPIC).publish(TOPIC)
    return tw.run(flow, workers=1)


if __name__ == "__main__":
    main()
