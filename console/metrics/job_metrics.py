"""The metrics of jobs: their names, and their samples in a telemetry document; no I/O.

Names follow Prometheus: counters end in ``_total``, units are seconds and bytes, and the name of a share ends in
``_ratio``. The values of labels are bounded: current and recent jobs, and the parts of their dataflows. No label has a
time, a key or a record as its value.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidewheel.display.figures import epoch_of
from tidewheel.host.log_lines import printable

Document: TypeAlias = Mapping[str, Any]
"""The telemetry document of one job."""

STATES = ("paused", "running", "going back", "complete", "failed", "stopped", "lost")
"""The states of a job; the last one is for a job whose telemetry no longer arrives."""

KEPT_S = 600.0
"""The seconds for which an ended job still has metrics, so that a scraper sees how the job has ended."""

_GONE = frozenset({"dead", "silent"})


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of all parts of a kind, such as all operators.

    Args:
        key: the key of the number in each part's document; it may be missing.
    """

    name: str
    text: str
    section: str
    key: str

    @property
    def is_counter(self) -> bool:
        """True if the metric only grows, except that it restarts at zero."""
        return self.name.endswith("_total")


@dataclass(frozen=True, slots=True)
class Sample:
    """One number: the metric, its labels in the order of `labels_of`, and the value."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


METRICS = tuple(
    Metric(f"tidewheel_{name}", text, section, key)
    for section, of_section in {
        "info": [("job_info", "The dataflow and the engine of a job; the value is always 1.", "is")],
        "states": [("job_state", "1 for the state that a job is in, and 0 for others.", "is")],
        "job": [
            ("job_workers", "Workers of a job.", "workers"),
            ("job_report_timestamp_seconds", "When a job reported last, in seconds since 1970.", "at"),
        ],
        "operators": [
            ("operator_schedules_total", "How often an operator was scheduled.", "schedules"),
            ("operator_busy_seconds_total", "Time that an operator ran, on all workers together.", "seconds"),
            ("operator_messages_in_total", "Messages that an operator has received.", "messages_in"),
            ("operator_records_in_total", "Records that an operator has received.", "records_in"),
            ("operator_messages_out_total", "Messages that an operator has sent.", "messages_out"),
            ("operator_records_out_total", "Records that an operator has sent.", "records_out"),
            ("operator_records_dropped_total", "Records sent to an output that nothing reads.", "records_dropped"),
            ("operator_queued_messages", "Messages that wait at the inputs of an operator.", "queue"),
            ("operator_state_keys", "Keys for which an operator keeps state.", "state_keys"),
            ("operator_state_bytes", "Size of the state of an operator.", "state_bytes"),
            ("operator_leaked_tokens_total", "Tokens that an operator has dropped without discarding them.", "leaks"),
            ("operator_frontier_epoch", "The earliest epoch that an operator can still receive.", "epoch"),
            ("operator_lag_seconds", "Time for which an operator has been behind the inputs.", "lag_seconds"),
            ("operator_lag_epochs", "Epochs between the newest of the job and the frontier of an operator.", "lag"),
        ],
        "edges": [
            ("edge_messages_total", "Messages that an edge has carried.", "messages"),
            ("edge_records_total", "Records that an edge has carried.", "records"),
            ("edge_bytes_total", "Size in memory of what an edge has carried.", "bytes"),
            ("edge_fill_ratio", "How full what leads over an edge is, from 0 to 1.", "fill"),
        ],
        "probes": [
            ("probe_frontier_epoch", "The earliest epoch that has not passed a probe, topic or capture.", "epoch"),
            ("probe_lag_epochs", "Epochs between the newest of the job and the frontier of a probe.", "lag"),
            ("probe_moved_timestamp_seconds", "When a probe's frontier moved last, in seconds since 1970.", "moved"),
            ("probe_complete", "1 if the frontier of a probe has ended, otherwise 0.", "is_complete"),
        ],
        "inputs": [
            ("input_batches_total", "Batches that were sent to an input.", "batches"),
            ("input_records_total", "Records that were sent to an input.", "records"),
            ("input_bytes_total", "Size in memory of what was sent to an input.", "bytes"),
            ("input_waited_seconds_total", "Time that feeders have waited to be let in.", "seconds_waited"),
            ("input_open", "1 if an input is open, otherwise 0.", "is_open"),
        ],
        "sources": [
            ("source_records_total", "Records that a source has read.", "records"),
            ("source_partitions", "Partitions of a source that have not ended.", "partitions"),
            ("source_lag_records", "Records that a source has not read yet, if it can tell.", "lag_records"),
            ("source_lag_bytes", "Bytes that a source has not read yet, if it can tell.", "lag_bytes"),
            ("source_lag_seconds", "Seconds for which a source is behind, if it can tell.", "lag_seconds"),
        ],
        "sinks": [
            ("sink_records_total", "Records that a sink has committed.", "records"),
            ("sink_epochs_total", "Epochs that a sink has committed.", "epochs"),
            ("sink_waiting_epochs", "Epochs that have records at a sink and are not committed.", "waiting"),
            ("sink_committed_timestamp_seconds", "When a sink committed last, in seconds since 1970.", "committed"),
        ],
        "loops": [
            ("loop_open_epochs", "Epochs that go round a loop now.", "epochs"),
            ("loop_latest_round", "The latest round in which an epoch of a loop is.", "latest"),
            ("loop_sampled_epochs_total", "Epochs that reports found in a loop, and that have left it.", "left"),
            ("loop_sampled_rounds_total", "Rounds that the sampled epochs of a loop took, added up.", "taken"),
        ],
        "workers": [
            ("worker_up", "0 if a worker is dead or silent, otherwise 1.", "up"),
            ("worker_steps_total", "Scheduling steps that a worker has taken.", "steps"),
            ("worker_cpu_seconds_total", "Processor time of the process of a worker.", "cpu_seconds"),
            ("worker_resident_memory_bytes", "Resident memory of the process of a worker.", "rss"),
            ("worker_in_flight_bytes", "Size of what waits at a worker and is on its way from it.", "bytes_in_flight"),
            ("worker_progress_messages_total", "Messages about progress to other workers.", "progress_messages"),
            ("worker_progress_bytes_total", "Size of the messages about progress to other workers.", "progress_bytes"),
        ],
        "topics": [
            ("topic_records_total", "Records that a partition has published.", "records"),
            ("topic_messages_total", "Messages that a partition has published.", "messages"),
            ("topic_subscribers", "Subscribers that are connected to a partition.", "subscribers"),
            ("topic_lag_messages", "Messages that wait for the slowest subscriber.", "lag_messages"),
            ("topic_lag_bytes", "Size of what waits for the slowest subscriber.", "lag_bytes"),
            ("topic_queued_bytes", "Size of what waits for all subscribers together.", "queued_bytes"),
            ("topic_overflows_total", "Subscribers that were cut off as they fell behind.", "overflows"),
            ("topic_epochs_dropped_total", "Epochs that were left out for slow subscribers.", "epochs_dropped"),
            ("topic_holders", "Subscribers that hold back the dataflow.", "holders"),
            ("topic_subscriptions", "Subscriptions of an exactly-once topic.", "subscriptions"),
            ("topic_unread_subscriptions", "Subscriptions that have not acknowledged all of a topic.", "unread"),
            ("topic_log_bytes", "Size of the log of a partition.", "log_bytes"),
        ],
        "snapshots": [
            ("snapshot_number", "Number of the last snapshot.", "number"),
            ("snapshot_timestamp_seconds", "When the last snapshot was taken, in seconds since 1970.", "taken"),
            ("snapshot_bytes", "Size of the last snapshot.", "bytes"),
            ("snapshot_written_bytes", "Size of what was new in the last snapshot.", "written_bytes"),
            ("snapshot_duration_seconds", "Time that the last snapshot took.", "seconds"),
        ],
    }.items()
    for name, text, key in of_section
)
"""All metrics, each once."""


def labels_of(metric: Metric) -> tuple[str, ...]:
    """Return the names of the labels of a metric; the first is ``job``.

    >>> labels_of(METRICS[0])
    ('job', 'dataflow', 'engine')
    """
    return ("job", *_SECTIONS[metric.section][0])


def is_past(document: Document, now: float) -> bool:
    """Tell whether a job has ended more than `KEPT_S` before ``now``, in seconds since 1970."""
    has_ended = _mapping(document.get("job")).get("state") in STATES[3:]
    return has_ended and now - (_number(document.get("at")) or now) > KEPT_S


def samples(job: str, document: Document, now: float, metrics: Sequence[Metric] = METRICS) -> Iterator[Sample]:
    """Yield the samples of one job; none if it has ended long ago.

    Each pair of metric and labels occurs once. Missing or malformed numbers are left out. ``now`` is in seconds since
    1970.
    """
    if is_past(document, now):
        return
    things = {section: list(_SECTIONS[section][1](document)) for section in {metric.section for metric in metrics}}
    for metric in metrics:
        seen = set()
        for labels, thing in things[metric.section]:
            value = _number(thing.get(metric.key))
            if value is not None and labels not in seen:
                seen.add(labels)
                yield Sample(metric, tuple(map(printable, (job, *labels))), value)


_Things: TypeAlias = Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]
"""The parts of one section, such as operators: each part's labels, and its numbers by key."""


def _info(document: Document) -> _Things:
    job = _mapping(document.get("job"))
    yield (str(job.get("dataflow", "")), str(job.get("engine", ""))), {"is": 1}


def _states(document: Document) -> _Things:
    current = _mapping(document.get("job")).get("state")
    yield from (((state,), {"is": state == current}) for state in STATES)


def _operators(document: Document) -> _Things:
    newest = _newest(document)
    live = _mapping(_mapping(document.get("live")).get("operators"))  # the page adds `live`
    for number, operator in _section(document, "operators"):
        lag = {"lag_seconds": _mapping(live.get(number)).get("lag_seconds")}
        yield (str(operator.get("name", number)),), {**operator, **lag, **_progress(operator, newest)}


def _edges(document: Document) -> _Things:
    names = {number: str(operator.get("name", number)) for number, operator in _section(document, "operators")}
    for number, edge in _section(document, "edges"):
        source, target = (str(edge.get(end, "")) for end in ("source", "target"))
        yield (number, names.get(source, source), names.get(target, target)), edge


def _probes(document: Document) -> _Things:
    newest = _newest(document)
    for name, probe in _section(document, "probes"):
        progress = {**_progress(probe, newest), "is_complete": probe.get("frontier") == []}
        yield (name, str(probe.get("kind", "probe"))), {**probe, **progress}


def _loops(document: Document) -> _Things:
    for name, loop in _section(document, "loops"):
        latest, ended = (filter(None, map(_number, _mapping(loop.get(key)).values())) for key in ("rounds", "ended"))
        yield (name,), {**loop, "latest": max(latest, default=0), "left": sum(ended)}


def _workers(document: Document) -> _Things:
    for number, worker in _section(document, "workers"):
        yield (number,), {**worker, "up": str(worker.get("state")) not in _GONE}


def _topics(document: Document) -> _Things:
    for name, topic in _section(document, "topics"):
        for partition, counts in _section(topic, "partitions"):
            yield (name, partition), {"messages": counts.get("sequence"), **counts}


_SECTIONS: Mapping[str, tuple[tuple[str, ...], Callable[[Document], _Things]]] = {
    "info": (("dataflow", "engine"), _info),
    "states": (("state",), _states),
    "job": ((), lambda document: iter([((), {**_mapping(document.get("job")), "at": document.get("at")})])),
    "operators": (("operator",), _operators),
    "edges": (("edge", "source", "target"), _edges),
    "probes": (("probe", "kind"), _probes),
    "inputs": (("input",), lambda document: (((name,), each) for name, each in _section(document, "inputs"))),
    "sources": (("source",), lambda document: (((name,), each) for name, each in _section(document, "sources"))),
    "sinks": (("sink",), lambda document: (((name,), each) for name, each in _section(document, "sinks"))),
    "loops": (("loop",), _loops),
    "workers": (("worker",), _workers),
    "topics": (("topic", "partition"), _topics),
    "snapshots": ((), lambda document: iter([((), _mapping(document.get("snapshots")))])),
}
"""For each section, the labels of its parts, except the job, and the function that yields the parts."""


def _progress(thing: Mapping[str, Any], newest: int | None) -> Mapping[str, int]:
    frontier = thing.get("frontier")
    if frontier == [] and newest is not None:
        return {"lag": 0}
    at = _epoch(thing)
    return {} if at is None or newest is None else {"epoch": at, "lag": newest - at}


def _newest(document: Document) -> int | None:
    reached = [_epoch(each) for section in ("operators", "probes") for _, each in _section(document, section)]
    reached += [_epoch({"frontier": [each.get("epoch")]}) for _, each in _section(document, "inputs")]
    return max((epoch for epoch in reached if epoch is not None), default=None)


def _epoch(thing: Mapping[str, Any]) -> int | None:
    frontier = thing.get("frontier")
    times = [str(time) for time in frontier] if isinstance(frontier, list) else []
    epochs = [epoch_of(time) for time in times if thing.get("scope") or not time.startswith("(")]
    known = [epoch for epoch in epochs if epoch is not None]
    return min(known, default=None) if len(known) == len(times) else None


def _section(document: Document, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from ((str(key), _mapping(value)) for key, value in _mapping(document.get(name)).items())


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> float | None:
    if isinstance(value, str):
        return float(value) if value.isdecimal() else None
    return float(value) if isinstance(value, int | float) else None
