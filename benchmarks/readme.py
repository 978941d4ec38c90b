"""The table of figures in README.md: what tidewheel measures on this machine, beside others, in one run.

Each line is a part of one benchmark, by its own functions, so the contestants take turns as they do there. Two workers
run on Ray. Contestants that are missing are left out, and said to be. `--write` puts the table into README.md, which
then says nothing of the machine: run it on a quiet one with two cores.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.contestants.exactly_once_peers import EXACTLY_ONCE
from benchmarks.contestants.topic_contestants import started_servers
from benchmarks.loops import barrier, components
from benchmarks.measuring.file_systems import disk_folder
from benchmarks.measuring.measurement import Report, parser
from benchmarks.measuring.transport_floor import ray_cluster
from benchmarks.records import exchange, wordcount
from benchmarks.spark import dataframes
from benchmarks.topics import exactly_once, pubsub

README: Final = Path(__file__).parents[1] / "README.md"
HEAD: Final = "| what | tidewheel | others | command |\n| --- | --- | --- | --- |\n"
SCALES: Final = {"words/s": (1e-6, ""), "us": (1.0, " µs"), "s": (1.0, " s"), "MB/s": (1.0, " MB/s")}
"""What a figure of a unit is multiplied by, and what stands behind it in the table."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured.

    Attributes:
        rounds: the turns of each contestant.
        quick: whether the sizes are those of `--quick`.
        peers: the interpreter that has the peers.
    """

    rounds: int
    quick: bool
    peers: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table.

    Attributes:
        what: the question, as the table's first cell has it.
        ours: the figures of tidewheel: what stands before each, and how the name of its row begins.
        others: those of the others, likewise.
        module: the benchmark that has all of it.
        measure: measures it.
    """

    what: str
    ours: tuple[tuple[str, str], ...]
    others: tuple[tuple[str, str], ...]
    module: str
    measure: Callable[[Report, Effort], None]

    def cells(self, report: Report) -> str:
        """Return the line in Markdown; a figure that a report has not is left out."""
        ours, others = (", ".join(said(report, figures)) for figures in (self.ours, self.others))
        return f"| {self.what} | {ours} | {others} | `python -m {self.module}` |"


def said(report: Report, figures: tuple[tuple[str, str], ...]) -> list[str]:
    """Return the texts of figures.

    >>> from benchmarks.measuring.measurement import Row
    >>> report = Report(
    ...     [Row("loop: a round, median", 1084.2, "us"), Row("loop of Spark, ended before it was done", 45, "s")]
    ... )
    >>> said(report, (("", "loop: a round"), ("Spark", "loop of Spark"), ("a peer", "none")))
    ['1.1 ms', 'Spark more than 45 s']
    """
    found = []
    for label, begin in figures:
        for row in islice((row for row in report.rows if row.name.startswith(begin)), 1):
            text = shown(row.value, row.unit)
            text = f"more than {text}" if "ended before" in row.name else text
            found.append(f"{label} {text}".strip())
    return found


def shown(value: float, unit: str) -> str:
    """Return a figure with two or three digits that count.

    >>> shown(128.4, "us"), shown(1908.0, "us"), shown(0.1312, "s"), shown(31.6, "s"), shown(1662.0, "MB/s")
    ('128 µs', '1.9 ms', '0.13 s', '32 s', '1,660 MB/s')
    >>> shown(2_913_000.0, "words/s")
    '2.9'
    """
    factor, name = SCALES[unit]
    scaled = value * factor
    if unit == "us" and scaled >= 1000:
        scaled, name = scaled / 1000, " ms"
    if scaled >= 1000:
        return f"{round(scaled, -1):,.0f}{name}"
    if scaled >= 10:
        return f"{scaled:.0f}{name}"
    return f"{scaled:.{1 if scaled >= 1 else 2}f}{name}"


def written(text: str, lines: Mapping[str, str]) -> str:
    """Return the README with other lines in the table; raise ValueError if it has no such table."""
    pattern = re.compile(re.escape(HEAD) + r"(\|.*\n)+")
    if pattern.search(text) is None:
        raise ValueError("README.md has no table of figures")
    table = HEAD + "".join(f"{line}\n" for line in lines.values())
    return pattern.sub(lambda _: table, text, count=1)


# ---------------------------------------------------------------------- the measurements


def measure_components(report: Report, effort: Effort) -> None:
    """Connected components of Debian's packages."""
    graph = replace(next(components.quick_graphs() if effort.quick else components.full_graphs()), name="graph")
    longest_s = 10 if effort.quick else 45
    with ray_cluster():
        components.measure(report, graph, effort.peers, components.Effort(effort.rounds, longest_s))


def measure_words(report: Report, effort: Effort) -> None:
    """Counted words."""
    with TemporaryDirectory(prefix="words") as folder, ray_cluster(), ExitStack() as running:
        parts, every = (2, 5) if effort.quick else (10, 1)
        text = wordcount.Text(Path(folder), parts=parts, every=every)
        wordcount.measure(report, running, text, effort.peers, quick=effort.quick)


def measure_rounds(report: Report, effort: Effort) -> None:
    """Empty rounds of a loop."""
    with ray_cluster():
        barrier.measure(report, effort.rounds, rounds=300 if effort.quick else 3000)


def measure_tables(report: Report, effort: Effort) -> None:
    """Tables from worker to worker."""
    with ray_cluster(), ExitStack() as running:
        exchange.measure(report, running, quick=effort.quick)


def measure_topic(report: Report, effort: Effort) -> None:
    """The latency of a topic to one subscriber."""
    size = pubsub.QUICK if effort.quick else pubsub.FULL
    size = size._replace(rounds=effort.rounds, fast_rounds=1, tables={1: 60}, lists={})
    with TemporaryDirectory(prefix="pubsub-") as folder, ray_cluster(), ExitStack() as running:
        servers = started_servers(running, dict.fromkeys(pubsub.SERVERS.values()), Path(folder))
        addresses = {name: server.address for name, server in servers.items()}
        pubsub.measure(report, running, addresses, Path(folder), size)


def measure_log(report: Report, effort: Effort) -> None:
    """The latency of a topic with a log on the disk."""
    size = exactly_once.QUICK if effort.quick else exactly_once.FULL
    size = size._replace(rounds=effort.rounds, fast_rounds=1, batches={1: {exactly_once.KB: 200}})
    with (
        TemporaryDirectory(prefix="exactly-once-", dir=disk_folder()) as disk,
        ray_cluster(),
        ExitStack() as running,
    ):
        servers = started_servers(running, exactly_once.SERVERS, Path(disk))
        exactly_once.measure(report, servers, Path(disk), size)


def measure_dataframe(report: Report, effort: Effort) -> None:
    """A DataFrame into a dataflow."""
    rows, partitions = (
        (dataframes.QUICK_ROWS, dataframes.QUICK_PARTITIONS)
        if effort.quick
        else (dataframes.ROWS, dataframes.PARTITIONS)
    )
    with dataframes.spark_on_ray() as spark:
        df = spark.range(rows, numPartitions=partitions).selectExpr(*dataframes.COLUMNS).cache()
        df.count()
        dataframes.measure_in(report, df, rows, effort.rounds)


LINES: Final = (
    Line(
        "connected components, 312,735 edges, until nothing changes",
        (("", "graph: tidewheel, 2 workers"),),
        (("Spark loop", "graph: Spark"), ("Pathway", "graph: Pathway"), ("scipy", "graph: scipy")),
        "benchmarks.loops.components",
        measure_components,
    ),
    Line(
        "million words counted a second, in Python and in Arrow",
        (("", f"{wordcount.PLAIN}, 2 workers"), ("", f"{wordcount.COLUMNAR}, 2 workers")),
        (
            ("Bytewax", f"{wordcount.BYTEWAX}, 2"),
            ("Pathway", wordcount.PATHWAY),
            ("Spark SQL", wordcount.SPARK),
            ("one thread of plain Python", "collections.Counter"),
            ("one thread of Arrow", "Arrow's kernels, 1 thread"),
        ),
        "benchmarks.records.wordcount",
        measure_words,
    ),
    Line(
        "an empty round of a loop",
        (("", f"{barrier.link_name(2, 'socket')}, median"),),
        (("bare ZeroMQ", f"{barrier.floor_name(2)}, median"),),
        "benchmarks.loops.barrier",
        measure_rounds,
    ),
    Line(
        "Arrow tables from worker to worker",
        (("", f"{exchange.TABLES}, link='socket': bytes"),),
        (("bare ZeroMQ", f"{exchange.TABLES}, bare ZeroMQ: bytes"),),
        "benchmarks.records.exchange",
        measure_tables,
    ),
    Line(
        "topic, from `send` to the subscriber, p50",
        (("", f"1 subscriber, {pubsub.DELIVERIES_A_SECOND:,} messages/s, {pubsub.OURS}: p50"),),
        (
            ("Redis", f"1 subscriber, {pubsub.DELIVERIES_A_SECOND:,} messages/s, {pubsub.PEER}: p50"),
            ("NATS", f"1 subscriber, {pubsub.DELIVERIES_A_SECOND:,} messages/s, NATS: p50"),
        ),
        "benchmarks.topics.pubsub",
        measure_topic,
    ),
    Line(
        "topic with a log, synced to disk, p50",
        (("", f"1 subscriber, 200 messages/s, {exactly_once.ours(EXACTLY_ONCE)}: p50"),),
        (
            ("Redis Streams", f"1 subscriber, 200 messages/s, {exactly_once.REDIS}: p50"),
            ("JetStream", f"1 subscriber, 200 messages/s, {exactly_once.JETSTREAM}: p50"),
        ),
        "benchmarks.topics.exactly_once",
        measure_log,
    ),
    Line(
        "10 million rows of Spark into a dataflow",
        (("", f"in, {dataframes.ROWS:,} rows, from_spark"),),
        (("RayDP", f"in, {dataframes.ROWS:,} rows, RayDP"), ("`toPandas`", f"in, {dataframes.ROWS:,} rows, toPandas")),
        "benchmarks.spark.dataframes",
        measure_dataframe,
    ),
)


def main() -> None:
    options = parser("Measure the figures of README.md.", peers=True)
    options.add_argument("--write", action="store_true", help="put the table into README.md")
    chosen = options.parse_args()
    effort = Effort(1 if chosen.quick else 5, chosen.quick, chosen.peers)
    report, lines = Report(), dict[str, str]()
    for line in LINES:
        print(f"\n{line.what}", flush=True)
        line.measure(report, effort)
        lines[line.what] = line.cells(report)
    report.finish(chosen.json)
    print(HEAD + "\n".join(lines.values()))
    if chosen.write:
        README.write_text(written(README.read_text("utf-8"), lines), "utf-8")


if __name__ == "__main__":
    main()
