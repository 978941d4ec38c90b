"""The tables of ``tidewheel top``: one job's telemetry, and the list of jobs, as rows of text."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tidewheel.display.figures import age_text, count_text, epoch_of, plain, share_text, size_text
from tidewheel.pubsub.subscribers.view import View

_ENDED = "ended"


class ListedJob(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def workers(self) -> int: ...

    @property
    def state(self) -> str: ...

    @property
    def probes(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: a text for each column, and whether it needs attention."""

    cells: tuple[str, ...]
    is_alarming: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with column headings; the heading of a column of numbers begins with a space."""

    heads: tuple[str, ...]
    rows: Sequence[Row]

    def cut(self, most: int, first: int = 0) -> "Table":
        """Return at most ``most`` rows from number ``first`` on; the last row says how many follow."""
        shown = list(self.rows[first : first + most])
        left = len(self.rows) - first - len(shown)
        if left > 0 and shown:
            shown[-1] = Row((f"and {left + 1} more", *[""] * (len(self.heads) - 1)))
        return Table(self.heads, shown)


@dataclass(frozen=True, slots=True)
class OperatorFigures:
    """The shown figures of one operator; rates are per second, None while unknown."""

    number: int
    name: str
    received: float | None
    sent: float | None
    busy: float | None
    frontier: str
    lag: int | None
    behind_s: float
    queue: int
    state: str
    held_s: float
    problem: str

    @property
    def row(self) -> Row:
        cells = (
            self.name,
            count_text(self.received),
            count_text(self.sent),
            share_text(self.busy),
            self.frontier,
            count_text(self.lag),
            _age(self.behind_s),
            count_text(self.queue),
            self.state,
            _age(self.held_s),
            self.problem,
        )
        return Row(cells, is_alarming=bool(self.problem))


_HEADS = ("OPERATOR", " IN/S", " OUT/S", " BUSY", "FRONTIER", " LAG", " BEHIND", " QUEUE", " STATE", " HELD", "PROBLEM")

ORDERS: Mapping[str, Callable[[OperatorFigures], Any]] = {
    "graph": lambda one: one.number,
    "name": lambda one: one.name,
    "rate": lambda one: -(one.received or one.sent or 0.0),
    "busy": lambda one: -(one.busy or 0.0),
    "lag": lambda one: -(one.lag or 0),
    "queue": lambda one: -one.queue,
}
"""The orders in which operators can be shown, by name; operators with the greatest values come first."""


def jobs_table(jobs: Sequence[ListedJob]) -> Table:
    rows = [
        Row((plain(job.name), job.state, str(job.workers), plain(job.probes)), job.state not in {"running", "complete"})
        for job in jobs
    ]
    return Table(("JOB", "STATE", " WORKERS", "PROBES"), rows)


def title_of(document: Mapping[str, Any]) -> list[str]:
    job = document.get("job", {})
    workers = job.get("workers", 1)
    lasted = age_text(max(0.0, document.get("at", 0.0) - job.get("since", document.get("at", 0.0))))
    place = f"{workers} worker{'s' if workers != 1 else ''} on {job.get('engine', '?')}"
    lines = [f"{plain(job.get('name', '?'))}  {job.get('state', '?')} for {lasted}, {place}"]
    if job.get("error"):
        lines.append(f"error: {plain(job['error'])}")
    return lines + [plain(note) for note in job.get("notes", ())]


def stuck_lines(document: Mapping[str, Any]) -> list[str]:
    explained = [probe.get("explanation") for probe in document.get("probes", {}).values()]
    return [plain(line) for text in explained if text for line in text.splitlines()]


def operators_table(view: View, order: str = "graph", *, is_reversed: bool = False) -> Table:
    """Return a row for each operator, in one of the `ORDERS`."""
    figures = sorted(operators_of(view), key=ORDERS[order], reverse=is_reversed)
    return Table(_HEADS, [one.row for one in figures])


def operators_of(view: View) -> Iterator[OperatorFigures]:
    document = view.document
    workers = max(1, document.get("job", {}).get("workers", 1))
    newest = _newest_epoch(document)
    live = document.get("live", {}).get("operators", {})
    for number, operator in document.get("operators", {}).items():
        seconds = view.rate("operators", number, "seconds")
        frontier = operator.get("frontier", ())
        epochs = [epoch for time in frontier if (epoch := epoch_of(time)) is not None]
        held = [document.get("at", 0.0) - token["since"] for token in operator.get("tokens", ()) if "since" in token]
        yield OperatorFigures(
            int(number),
            plain(operator.get("name", number)),
            view.rate("operators", number, "records_in"),
            view.rate("operators", number, "records_out"),
            None if seconds is None else seconds / workers,
            plain(", ".join(frontier)) or _ENDED,
            max(0, newest - min(epochs)) if newest is not None and epochs else None,
            live.get(number, {}).get("lag_seconds", 0.0),
            operator.get("queue", 0),
            _state(operator),
            max(held, default=0.0),
            _problem(operator),
        )


def _newest_epoch(document: Mapping[str, Any]) -> int | None:
    times = [one.get("epoch", "") for one in document.get("inputs", {}).values()]
    for operator in document.get("operators", {}).values():
        if operator.get("kind") == "input":
            times += operator.get("frontier", ())
    return max((epoch for time in times if (epoch := epoch_of(str(time))) is not None), default=None)


def _age(seconds: float) -> str:
    return age_text(seconds) if seconds >= 1 else ""


def _state(operator: Mapping[str, Any]) -> str:
    keys, size = operator.get("state_keys"), operator.get("state_bytes")
    known = [f"{count_text(keys)} keys"] if keys else []
    return ", ".join(known if size is None else [*known, size_text(size)])


def _problem(operator: Mapping[str, Any]) -> str:
    busy, leaks = operator.get("busy"), operator.get("leaks", 0)
    found = []
    if busy:
        found.append(f"worker {busy.get('worker')} in it for {age_text(busy.get('seconds', 0.0))}")
    if leaks:
        found.append(f"{leaks} leaked token{'s' if leaks > 1 else ''}")
    return "; ".join(found)


def workers_table(view: View) -> Table:
    """Return a row for each worker; dead, silent and busy workers come first."""
    rows = []
    for number, worker in view.document.get("workers", {}).items():
        cells = (
            number,
            worker.get("state", "?"),
            count_text(view.rate("workers", number, "steps")),
            share_text(view.rate("workers", number, "cpu_seconds")),
            size_text(worker["rss"]) if "rss" in worker else "",
            size_text(worker["bytes_in_flight"]) if "bytes_in_flight" in worker else "",
            str(worker.get("pid", "")),
            plain(worker.get("node", "")),
        )
        rows.append(Row(cells, is_alarming=worker.get("state") not in (None, "running", "ended")))
    rows.sort(key=lambda row: not row.is_alarming)
    return Table(("WORKER", "STATE", " STEPS/S", " CPU", " MEMORY", " IN FLIGHT", " PID", "NODE"), rows)


def topics_table(view: View) -> Table:
    rows = []
    for name, topic in view.document.get("topics", {}).items():
        counts = topic.get("partitions", {})
        rates = [view.rate("topics", name, "partitions", partition, "records") for partition in counts]
        known = [rate for rate in rates if rate is not None]
        every = list(counts.values())
        cells = (
            plain(name),
            str(topic.get("delivery", "")),
            count_text(sum(known) if known else None),
            count_text(max((one.get("subscribers", one.get("subscriptions", 0)) for one in every), default=0)),
            count_text(sum(one.get("lag_messages", 0) for one in every)),
            size_text(sum(one.get("lag_bytes", 0) for one in every)),
            _age(view.document.get("live", {}).get("topics", {}).get(name, {}).get("lag_seconds", 0.0)),
        )
        rows.append(Row(cells, is_alarming=any(one.get("holders", 0) for one in every)))
    return Table(("TOPIC", "DELIVERY", " RECORDS/S", " SUBSCRIBERS", " LAG", " LAG BYTES", " BEHIND"), rows)


def sources_table(view: View) -> Table:
    rows = []
    for name, source in view.document.get("sources", {}).items():
        cells = (
            plain(name),
            count_text(source.get("partitions")),
            count_text(view.rate("sources", name, "records")),
            count_text(source.get("lag_records")),
            size_text(source["lag_bytes"]) if "lag_bytes" in source else "",
            _age(source.get("lag_seconds", 0.0)),
        )
        rows.append(Row(cells))
    return Table(("SOURCE", " PARTITIONS", " RECORDS/S", " LAG", " LAG BYTES", " BEHIND"), rows)


def sinks_table(view: View) -> Table:
    rows, at = [], view.document.get("at", 0.0)
    for name, sink in view.document.get("sinks", {}).items():
        last = f"{age_text(max(0.0, at - sink['committed']))} ago" if "committed" in sink else ""
        rate = count_text(view.rate("sinks", name, "records"))
        rows.append(Row((plain(name), rate, count_text(sink.get("epochs")), count_text(sink.get("waiting")), last)))
    return Table(("SINK", " RECORDS/S", " EPOCHS", " WAITING", "LAST COMMIT"), rows)


def log_table(document: Mapping[str, Any]) -> Table:
    """Return the notable events, the latest first."""
    events = sorted(document.get("log", {}).items(), key=lambda event: -int(event[0]))
    rows = []
    for _, event in events:
        worker, operator = event.get("worker"), event.get("operator")
        where = ([] if worker is None else [f"worker {worker}"]) + ([] if operator is None else [repr(operator)])
        age = age_text(max(0.0, document.get("at", 0.0) - event.get("at", 0.0)))
        cells = (f"{age} ago", event.get("level", ""), plain(", ".join(where)), plain(event.get("text", "")))
        rows.append(Row(cells, is_alarming=event.get("level") in {"warning", "error"}))
    return Table(("LOG", "LEVEL", "WHERE", "EVENT"), rows)
