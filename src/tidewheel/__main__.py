"""The command line: `tidewheel topics`, `tail`, `resend`, `jobs`, `explain`, `top`, `serve` and `snapshots`."""

import argparse
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

import tidewheel as tw
from tidewheel.console import resend
from tidewheel.console.serve import add_options, serve
from tidewheel.console.terminal import command as terminal
from tidewheel.gateway import BadRequest, Comparison, RecordFilter
from tidewheel.host import ray_cluster
from tidewheel.host.log_lines import write_lines
from tidewheel.runtime.engines.running_jobs import explain_job, find_job, running_jobs
from tidewheel.runtime.snapshots.errors import SnapshotError
from tidewheel.runtime.snapshots.listing import description, table
from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder

_INTERRUPTED = 130
_LEAVES_A_DEAD_CLUSTER_SOON = ("RAY_task_events_shutdown_flush_timeout_ms", "500")
"""An environment variable of Ray and its value: by default, Ray waits 5 s for a control store that is gone."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command of the command line; return the exit code: 0, 1 after an error, 130 after Ctrl-C.

    Raises:
        SystemExit: the command line is wrong, with code 2, or it asks for help, with code 0.
    """
    options = _parser().parse_args(arguments)
    for variable, value in (("RAY_ADDRESS", options.address), ("RAY_NAMESPACE", options.namespace)):
        if value is not None:
            os.environ[variable] = value
    os.environ.setdefault(*_LEAVES_A_DEAD_CLUSTER_SOON)
    logging.basicConfig(format="tidewheel: %(message)s")
    logging.getLogger(ray_cluster.__name__).setLevel(logging.INFO)  # it reports which cluster is joined, or lost
    try:
        settings = tw.RuntimeConfig()  # by TIDEWHEEL_LOG_LEVEL and TIDEWHEEL_LOG_FORMAT
        write_lines(settings.log_level, settings.log_format)
        options.command(options)
        sys.stdout.flush()
    except tw.TidewheelError as error:
        print(f"tidewheel: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of the output, such as `head`, has closed it; Python would complain when it closes standard output.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "tidewheel", description="Look at the live topics and jobs of the Ray cluster that runs, and at snapshots."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    topics = commands.add_parser("topics", help="list the topics that there are")
    topics.add_argument("--watch", action="store_true", help="go on with a line for each that comes or goes, and why")
    topics.set_defaults(command=_topics)
    jobs = commands.add_parser("jobs", help="list the jobs that run, and how far their probes have come")
    jobs.set_defaults(command=_jobs)
    explain = commands.add_parser("explain", help="say what holds a probe or topic of a job back, and what to do")
    explain.add_argument("job", metavar="JOB", help="as 'tidewheel jobs' lists it, or its name without the last part")
    explain.add_argument("probe", metavar="PROBE", help="a probe, else a topic, else a capture")
    explain.set_defaults(command=lambda options: _say(explain_job(options.job, options.probe)))
    tail = commands.add_parser("tail", help="print what comes on a topic, a record a line, until it ends")
    tail.add_argument("topic", metavar="TOPIC")
    tail.add_argument("--epochs", action="store_true", help="print whole epochs only, each once it is complete")
    tail.add_argument("--json", action="store_true", help='print JSON: {"time": ..., "record": ...}')
    _add_where(tail, "print records that meet this, as n>1, city==Oslo, or record>1; several times: that meet all")
    tail.set_defaults(command=_tail)
    again = commands.add_parser("resend", help="send the records of dead letters again, to an inbox of a job")
    resend.add_options(again)
    _add_where(again, "send letters that meet this, as error==ValueError or where==parse; several times: that meet all")
    again.set_defaults(command=lambda options: resend.resend(options, _filter(options), _say))
    watching = commands.add_parser("top", help="watch jobs live: workers, operators, topics, and what holds them back")
    terminal.add_options(watching)
    watching.set_defaults(command=_top)
    serving = commands.add_parser(
        "serve", help="serve the page of jobs, their metrics, and topics by HTTP and Arrow Flight"
    )
    add_options(serving)
    serving.set_defaults(command=lambda options: serve(options, _say))
    for command in commands.choices.values():
        command.add_argument("--address", help="HOST:PORT of the Ray cluster (default: RAY_ADDRESS, or the only one)")
        command.add_argument("--namespace", help="Ray namespace of the topics (default: RAY_NAMESPACE, or tidewheel)")
    _add_snapshots(commands.add_parser("snapshots", help="list, describe or delete the snapshots in a folder"))
    return parser


def _add_where(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--where", metavar="CONDITION", type=_condition, action="append", default=[], help=what)
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        default=10.0,
        help="how long to wait until the topic exists (default: 10)",
    )


def _filter(options: argparse.Namespace) -> RecordFilter | None:
    return RecordFilter(tuple(options.where)) if options.where else None


def _add_snapshots(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", metavar="FOLDER", help="a path, s3://bucket/path, gs://bucket/path or az://container/path"
    )
    parser.add_argument("number", metavar="NUMBER", type=int, nargs="?", help="describe this snapshot")
    parser.add_argument(
        "--delete", metavar="NUMBER", type=int, help="delete this snapshot; no job may be running with the folder"
    )
    parser.set_defaults(command=_snapshots, address=None, namespace=None)


def _condition(text: str) -> Comparison:
    try:
        return Comparison.parse(text)
    except BadRequest as error:
        raise argparse.ArgumentTypeError(str(error).replace("where=", "", 1)) from None


def _say(line: str) -> None:
    print(line, flush=True)


def _topics(options: argparse.Namespace) -> None:
    if options.watch:
        with tw.watch_topics() as watch:
            for event in watch:
                what = event.reason or event.schema
                print(f"{event.event}\t{event.topic}\t{event.job}\t{event.partitions}\t{what}", flush=True)
        return
    rows = [(topic.name, topic.job, str(topic.partitions), topic.times, topic.schema) for topic in tw.topics()]
    _print_table([("TOPIC", "JOB", "PARTITIONS", "TIMES", "SCHEMA"), *rows])


def _jobs(options: argparse.Namespace) -> None:
    rows = [(job.name, job.state, str(job.workers), job.probes) for job in running_jobs()]
    _print_table([("JOB", "STATE", "WORKERS", "PROBES"), *rows])


def _top(options: argparse.Namespace) -> None:
    chosen = running_jobs() if options.job is None else [find_job(running_jobs(), options.job)]
    terminal.top(running_jobs if options.job is None else lambda: chosen, _say, once=options.once)


def _snapshots(options: argparse.Namespace) -> None:
    folder = SnapshotFolder(options.folder)
    stored, now = folder.stored_snapshots(), datetime.now(UTC)
    if not stored:
        raise SnapshotError(f"{folder.url} has no snapshots: is it the folder of tw.Snapshots(...)?")
    if options.delete is not None:
        with folder.claim("tidewheel snapshots --delete") as owner:
            owner.delete(options.delete)
        return
    if options.number is None:
        _print_table(table(stored, now))
        return
    found = [snapshot for snapshot in stored if snapshot.manifest.number == options.number]
    if not found:
        numbers = ", ".join(str(snapshot.manifest.number) for snapshot in stored)
        raise SnapshotError(f"{folder.url} has no snapshot {options.number}. It has: {numbers}")
    for line in description(found[0], now):
        _say(line)


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _tail(options: argparse.Namespace) -> None:
    with tw.subscribe(options.topic, timeout_s=options.timeout, where=_filter(options)) as topic:
        for time, record in _records(topic, whole=options.epochs):
            if options.json:
                print(msgspec.json.encode({"time": time, "record": record}, enc_hook=str).decode(), flush=True)
            else:
                print(f"{time!r}\t{record!r}", flush=True)


def _records(topic: tw.types.Subscription, *, whole: bool) -> Iterator[tuple[Any, Any]]:
    if whole:
        for epoch in topic.epochs():
            yield from ((epoch.time, record) for record in epoch.records)
        return
    for event in topic:
        if isinstance(event, tw.types.Batch):
            yield from ((event.time, record) for record in event.records)


if __name__ == "__main__":
    sys.exit(main())
