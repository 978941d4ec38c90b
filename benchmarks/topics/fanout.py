"""The cost of many subscribers behind a tree of relays, beside NATS with leaf nodes, and the recovery from faults.

A job publishes a topic exactly once, with a log on disk. Two relays are below its publisher, and four below those. The
subscribers are simulated in four processes (`contestants/fanout_subscribers.py`). With 100, 1,000 and 10,000
subscribers, the program measures

- the bytes that each hop carries down and up, and the processor time of the publisher's process: for each message, with
  the silence and the signs of life until the next one, and for a second without messages,
- p50 and p99 of the time from before a message is sent until it is delivered and decoded, over all subscribers.

Beside it are NATS servers in the same tree, as leaf nodes, with as many subscriptions. They keep nothing on disk,
and acknowledge nothing. Both share the cores of this machine with their subscribers, so a message to 10,000 of them
takes as long as the cores need for 10,000 deliveries.

Before that, a tree with 400 subscribers recovers from a broken link, a relay that is stopped, and a publisher that is
killed: `parts/fanout_recovery.py`. The figures of the machines alone come first: `parts/fanout_machines.py`.

    python -m benchmarks.topics.fanout                # takes about four minutes
    python -m benchmarks.topics.fanout --quick
    python -m benchmarks.topics.fanout --picture docs/pictures/recovery.svg
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import NamedTuple

import tidewheel as tw
from benchmarks.contestants.fanout_subscribers import Arrivals
from benchmarks.contestants.topic_job import produced
from benchmarks.measuring.file_systems import disk_folder
from benchmarks.measuring.measurement import Report, arguments
from benchmarks.measuring.peer_processes import PeerMissingError
from benchmarks.measuring.pubsub_traffic import wait
from benchmarks.measuring.transport_floor import ray_cluster
from benchmarks.parts.fanout_machines import measure_machines
from benchmarks.parts.fanout_picture import picture
from benchmarks.parts.fanout_recovery import measure_recovery
from benchmarks.parts.fanout_tree import PROCESSES, UP, UPPER, TopicTree, Tree, nats_tree, topic_tree

TOPIC, RECOVERED = "fanout", "recovered"
IDLE_S = 4.0
MOST_UP = 1000.0
"""A relay flushes ten times a second; a consolidated acknowledgement has 62 bytes, and a nack has fewer."""
SETTLED_S = 1.0
"""After this time nothing is under way from before."""


class Size(NamedTuple):
    """How much is measured.

    Attributes:
        machines: the numbers of subscribers of the machines alone, few and many.
        subscribers: the numbers of subscribers.
        messages: how many are sent to each number of subscribers.
        rate: how many of them a second.
        recovering: the number of subscribers of the tree that recovers.
        recovering_rate: how many messages a second they receive.
    """

    machines: tuple[int, int]
    subscribers: tuple[int, ...]
    messages: int
    rate: float
    recovering: int
    recovering_rate: float


FULL = Size((100, 10_000), (100, 1000, 10_000), 12, 2 / 3, 400, 10.0)
QUICK = Size((100, 2000), (40, 200), 4, 2.0, 40, 10.0)


def main() -> None:
    """Measure, print, and write the figures and the picture if files are asked for."""
    text = "write a picture of the recovery to FILE, as SVG"
    asked = arguments("Measure many subscribers behind relays.", picture=text)
    size = QUICK if asked.quick else FULL
    report = Report()
    measure_machines(report, *size.machines)
    with TemporaryDirectory(prefix="fanout-", dir=disk_folder()) as folder:
        with ray_cluster(), deployed(Path(folder, "log")) as job:
            with topic_tree(job, RECOVERED) as tree:
                recoveries = measure_recovery(report, tree, size.recovering, size.recovering_rate)
            with topic_tree(job, TOPIC) as tree:
                measure_tree(report, tree, size)
            job.stop()
        measure_nats(report, Path(folder), size)
    if asked.picture is not None:
        asked.picture.write_text(picture(recoveries, size.recovering, size.recovering_rate), encoding="utf-8")
    report.finish(asked.json)


def deployed(log: Path) -> tw.types.Job:
    """Start the job that publishes both topics."""
    flow = tw.Dataflow("fanout")
    for topic in (TOPIC, RECOVERED):
        produced(flow, topic).publish(topic, log=tw.Log(log))
    return tw.run(flow, workers=1, engine="ray")


def measure_tree(report: Report, tree: TopicTree, size: Size) -> None:
    """Report the bytes on each hop, the publisher's time and the latencies, for each number of subscribers."""
    costs: dict[int, float] = {}
    for count in size.subscribers:
        tree.connect(count)
        tree.turn(2, size.rate)
        wait(SETTLED_S)
        idle_bytes, idle_s = spent(tree, IDLE_S)
        before, before_s = tree.carried(), tree.publisher_cpu_s()
        arrivals = tree.turn(size.messages, size.rate)
        after, after_s = tree.carried(), tree.publisher_cpu_s()
        each = {hop: (after[hop] - before[hop]) / size.messages for hop in after}
        for when, hops in (("each message", each), ("an idle second", idle_bytes)):
            report.add_several(f"{count} subscribers, {when}", {hop: (n, "bytes") for hop, n in hops.items()})
        costs[count] = (after_s - before_s) / size.messages * 1e3
        up = each[UP[0]] * size.rate / UPPER
        report.expect(f"{count} subscribers: bytes up to the publisher, each second and relay", up, MOST_UP)
        times = {"each message": (costs[count], "ms"), "an idle second": (idle_s * 1e3, "ms")}
        report.add_several(f"{count} subscribers, publisher", times)
        report_latencies(report, f"{count} subscribers, tidewheel", arrivals, count, size.messages)
    few, many = size.subscribers[0], size.subscribers[-1]
    report.expect(f"{many} subscribers by {few}: time of the publisher", costs[many] / costs[few], 1.5)


def spent(tree: TopicTree, seconds: float) -> tuple[dict[str, float], float]:
    """Return the bytes on each hop, and the publisher's processor time, of an idle second."""
    before, before_s = tree.carried(), tree.publisher_cpu_s()
    wait(seconds)
    after, after_s = tree.carried(), tree.publisher_cpu_s()
    return {hop: (after[hop] - before[hop]) / seconds for hop in after}, (after_s - before_s) / seconds


def measure_nats(report: Report, folder: Path, size: Size) -> None:
    """Report the latencies of NATS with leaf nodes, if it is installed."""
    try:
        with nats_tree(folder) as tree:
            for count in size.subscribers:
                arrivals = connected_turn(tree, count, size)
                report_latencies(report, f"{count} subscribers, NATS with leaf nodes", arrivals, count, size.messages)
    except PeerMissingError as error:
        print(f"NATS: missing ({error})")


def connected_turn(tree: Tree, count: int, size: Size) -> list[Arrivals]:
    """Have so many subscribers, and a turn that does not count; return the arrivals of one that does."""
    tree.connect(count)
    tree.turn(2, size.rate)
    return tree.turn(size.messages, size.rate)


def report_latencies(report: Report, what: str, arrivals: Sequence[Arrivals], count: int, messages: int) -> None:
    """Report p50 and p99 over all subscribers and messages; RuntimeError if some have not arrived."""
    latencies = [latency / 1e3 for one in arrivals for latency in one.latencies_us]
    if len(latencies) != count // PROCESSES * PROCESSES * messages:
        raise RuntimeError(f"{what}: {len(latencies)} of {count * messages} messages have arrived")
    cuts = quantiles(latencies, n=100, method="inclusive")
    report.add_several(what, {"p50": (cuts[49], "ms"), "p99": (cuts[98], "ms")})


if __name__ == "__main__":
    main()
