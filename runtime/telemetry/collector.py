"""The collector, which makes the document of a job from observations; no I/O, no clock.

Invariants:

- A document is JSON, and no dict in it has None as a value, so merge patches can describe its changes.
- Counts are sums over all workers. If a worker does not answer, its last answer counts. So counts fall only when the
  job returns to a snapshot or a worker restarts.
- When the job has ended, no worker runs and no input is open.
- Times are texts, as Python prints them.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, Final

from tidewheel.display.merge_patch import Document
from tidewheel.progress import Location, Target
from tidewheel.progress.graph import Source
from tidewheel.runtime.explaining.explainer import Explainer, explicable
from tidewheel.runtime.explaining.job_view import JobView, by_worker
from tidewheel.runtime.messages.connector_numbers import SinkNumbers, SourceNumbers, of_sink, of_source
from tidewheel.runtime.messages.worker_report import BusyWorker, WorkerReport
from tidewheel.runtime.telemetry.event_log import EventLog
from tidewheel.runtime.telemetry.graph_numbers import GraphNumbers
from tidewheel.runtime.telemetry.held_tokens import MOST_TOLD, HeldTokens
from tidewheel.runtime.telemetry.kept_tokens import KeptTokens
from tidewheel.runtime.telemetry.loop_rounds import LoopRounds
from tidewheel.runtime.telemetry.observation import JobFacts, Observation

_OPERATOR_COUNTS = (
    "schedules",
    "seconds",
    "messages_in",
    "records_in",
    "messages_out",
    "records_out",
    "records_dropped",
)
_EDGE_COUNTS = ("messages", "records", "bytes")
_WORKER_COUNTS = ("steps", "bytes_in_flight", "progress_messages", "progress_bytes", "leaks")
_MOST_TIMES: Final = 20
_MOST_EXPLAINED: Final = 20
_EXPLAINING_S: Final = 0.01
_BUSY_S: Final = 1.0
_DRIVER: Final = "driver"
_ENDED: Final = frozenset({"complete", "failed", "stopped"})


class Collector:
    """Makes a document of each observation of one job, and remembers facts of earlier observations."""

    def __init__(self, facts: JobFacts, clock: Callable[[], float]) -> None:
        self._facts = facts
        self._clock = clock
        self._numbers = GraphNumbers(facts.plan, facts.outline)
        self._operators = dict(self._numbers.operators())
        self._edges = dict(self._numbers.described_edges())
        self._tokens, self._kept = HeldTokens(), KeptTokens()
        self._rounds = LoopRounds(facts.compiled, facts.outline, self._numbers)
        self._events = EventLog()
        self._answers: dict[int, WorkerReport] = {}
        self._states: dict[int, str] = {}
        self._busy: dict[int, BusyWorker] = {}
        self._topics: dict[str, Sequence[Mapping[str, int]]] = {}
        self._moved: dict[str, tuple[list[str], float]] = {}
        self._turn = 0
        self._returns = 0
        self._view = JobView(facts.plan, facts.compiled, ())
        self._before: Document | None = None

    def document(self, seen: Observation) -> Document:
        """Return the document of an observation. Later documents share parts with it."""
        if seen.returns != self._returns:
            self._returns = seen.returns
            self._rounds.forget()
            self._answers.clear()  # workers count from zero again: sums of old and new counts would fall twice
        self._hear(seen)
        self._topics.update(seen.topics)
        reports, view = [self._answers[worker] for worker in sorted(self._answers)], self._view
        document: Document = {
            "at": round(seen.at, 3),
            "job": self._job(seen),
            "operators": self._operator_parts(view, reports, seen.at),
            "edges": self._edge_parts(reports),
            "probes": self._probes(view, seen),
            "inputs": self._inputs(reports, seen),
            **self._connectors(reports),
            "loops": self._rounds.look(view.live),
            "workers": {str(worker): self._worker(worker, seen.state) for worker in sorted(self._states)},
            "topics": {name: self._topic(name, counts) for name, counts in self._topics.items()},
        }
        if seen.snapshots is not None:
            document["snapshots"] = dict(seen.snapshots)
        lines = [(str(answer.worker), answer.lines) for answer in seen.reports]
        document["log"] = self._events.look(self._before, document, [*lines, (_DRIVER, seen.lines)])
        self._before = document
        return document

    def _hear(self, seen: Observation) -> None:
        fresh = seen.reports if seen.state != "going back" else [one for one in seen.reports if not _is_report(one)]
        for answer in fresh:
            worker = answer.worker
            if isinstance(answer, WorkerReport):
                self._answers[worker], self._states[worker] = answer, "running"
                self._busy.pop(worker, None)
            else:
                self._busy[worker] = answer
                state = "dead" if answer.is_dead else "silent" if answer.operator is None else "busy"
                self._states[worker] = state
        if any(map(_is_report, fresh)):
            self._view = JobView(self._facts.plan, self._facts.compiled, fresh)

    def _job(self, seen: Observation) -> Document:
        dynamic: Document = {"state": seen.state, "notes": list(seen.notes), "returns": seen.returns}
        if seen.error is not None:
            dynamic["error"] = seen.error
        return {**self._facts.about, **dynamic}

    # ------------------------------------------------------------------ operators and edges

    def _operator_parts(self, view: JobView, reports: Sequence[WorkerReport], at: float) -> dict[str, Document]:
        none = dict.fromkeys((*_OPERATOR_COUNTS, "queue", "leaks"), 0)
        parts: dict[str, Document] = {number: {**described, **none} for number, described in self._operators.items()}
        counted = [report.statistics.operators for report in reports]
        for name, counts in _sums(counted, _OPERATOR_COUNTS).items():
            parts[self._numbers.of_name[name]].update(counts)
        for number, operator in enumerate(self._facts.plan.operators):
            frontier = sorted(map(repr, islice(view.operator_frontier(number, operator), _MOST_TIMES)))
            for name in [stage.name for stage in operator.stages] or [operator.name]:
                parts[self._numbers.of_name[name]]["frontier"] = frontier
        self._add_kept(parts, reports, at)
        for worker, busy in self._busy.items():
            if busy.operator is not None and busy.seconds >= _BUSY_S:
                parts[self._numbers.of_name[busy.operator]]["busy"] = {"worker": str(worker), **_call(busy)}
        return parts

    def _add_kept(self, parts: dict[str, Document], reports: Sequence[WorkerReport], at: float) -> None:
        locations = self._facts.compiled.locations
        for report in reports:
            for (location, _), count in report.queued.items():
                parts[self._numbers.at(locations[location])]["queue"] += count
        tokens_of = by_worker({report.worker: report.tokens for report in reports})
        awaited = by_worker({report.worker: report.awaited for report in reports})
        for location, tokens in self._tokens.look(tokens_of, awaited, at).items():
            part = parts[self._numbers.at(locations[location])]
            both = sorted([*part.get("tokens", []), *tokens], key=lambda token: token["since"])
            part["tokens"] = both[:MOST_TOLD]
        for report in reports:
            for name, leaks in report.leaked.items():
                parts[self._numbers.of_name[name]]["leaks"] += leaks
            for key, amounts in (("state_keys", report.state_keys), ("state_bytes", report.state_bytes)):
                for name, amount in amounts.items():
                    part = parts[self._numbers.of_name[name]]
                    part[key] = part.get(key, 0) + amount

    def _edge_parts(self, reports: Sequence[WorkerReport]) -> dict[str, Document]:
        parts: dict[str, Document] = {
            number: {**described, "messages": 0, "records": 0, "bytes": 0, "fill": 0.0}
            for number, described in self._edges.items()
        }
        counted = [dict(zip(self._numbers.outer_edges, report.statistics.edges, strict=True)) for report in reports]
        for number, counts in _sums(counted, _EDGE_COUNTS).items():
            parts[number].update(counts)
        stages = [report.statistics.operators for report in reports]
        for name, number in self._numbers.inner_edges:
            done = [operators[name] for operators in stages]
            parts[number]["messages"] = sum(one.messages_out for one in done)
            parts[number]["records"] = sum(one.records_out for one in done)
        for report in reports:
            for location, size in report.queued_bytes.items():
                target = self._facts.compiled.locations[location]
                if isinstance(target, Target):
                    part = parts[self._numbers.edge_to(target)]
                    part["fill"] = max(part["fill"], round(min(1.0, size / self._facts.bytes_in_flight), 3))
        return parts

    # ------------------------------------------------------------------ waiting places and their causes

    def _probes(self, view: JobView, seen: Observation) -> dict[str, Document]:
        plan, parts = self._facts.plan, {}
        stuck: list[str] = []
        ends = explicable(plan)
        for name, location in ends.items():
            frontier = sorted(map(repr, islice(view.frontier(location), _MOST_TIMES)))
            before, moved = self._moved.get(name, ([], seen.at))
            has_stayed = before == frontier and name in self._moved
            self._moved[name] = (frontier, moved if has_stayed else round(seen.at, 3))
            if has_stayed and frontier and seen.state not in ("complete", "going back"):
                stuck.append(name)
            parts[name] = {
                "operator": self._numbers.at(location),
                "kind": "probe" if name in plan.probes else "topic" if name in plan.topics else "capture",
                "frontier": frontier,
                "moved": self._moved[name][1],
            }
        for name, explained in self._explained(view, stuck, seen):
            parts[name].update(explained)
        return parts

    def _explained(self, view: JobView, names: list[str], seen: Observation) -> "list[tuple[str, Document]]":
        if not names:
            return []
        view.kept = self._kept.look(view, self._tokens.oldest())
        found: dict[str, Document] = {}
        earlier = {} if self._before is None else self._before["probes"]
        explainer = Explainer(view, seen.feed, seen.notes, seen.next_snapshot)
        began = self._clock()
        turn = self._turn % len(names)
        for name in (names[turn:] + names[:turn])[:_MOST_EXPLAINED]:
            if found and self._clock() - began > _EXPLAINING_S:
                break
            self._turn += 1
            told = explainer.explain(name)
            holders = dict.fromkeys(self._numbers.of_name[holder.operator] for holder in told.holders)
            found[name] = {"explanation": str(told), "holders": list(holders)}
        kept = ("explanation", "holders")
        for name in names:
            if name not in found and "explanation" in earlier.get(name, {}):
                found[name] = {part: earlier[name][part] for part in kept}
        return list(found.items())

    def _inputs(self, reports: Sequence[WorkerReport], seen: Observation) -> dict[str, Document]:
        if seen.feed is None:
            return {}
        parts: dict[str, Document] = {}
        for name, counts in seen.feed.inputs.statistics(reports).items():
            fed = seen.feed.inputs[name]
            times = fed.times
            parts[name] = {
                "batches": counts.batches,
                "records": counts.records,
                "bytes": counts.bytes,
                "seconds_waited": round(counts.seconds_waited, 3),
                "is_open": seen.state not in _ENDED and (bool(times) or fed.handed_over > 0),
                "operator": self._numbers.at(Source(self._facts.plan.inputs[name], 0)),
            }
            if times:
                parts[name]["epoch"] = repr(times[0])
        return parts

    def _connectors(self, reports: Sequence[WorkerReport]) -> dict[str, dict[str, Document]]:
        """Return the parts for sources and for sinks."""
        sources: dict[str, list[SourceNumbers]] = {}
        sinks: dict[str, list[SinkNumbers]] = {}
        for report in reports:
            for name, numbers in report.connectors.items():
                if isinstance(numbers, SourceNumbers):
                    sources.setdefault(name, []).append(numbers)
                else:
                    sinks.setdefault(name, []).append(numbers)
        of_name = self._numbers.of_name
        return {
            "sources": {name: {"operator": of_name[name], **of_source(all_of)} for name, all_of in sources.items()},
            "sinks": {name: {"operator": of_name[name], **of_sink(all_of)} for name, all_of in sinks.items()},
        }

    # ------------------------------------------------------------------ workers and topics

    def _worker(self, worker: int, job_state: str) -> Document:
        state = self._states[worker]
        part: Document = {"state": "ended" if job_state in _ENDED and state != "dead" else state}
        report = self._answers.get(worker)
        if report is not None:
            part.update(zip(_WORKER_COUNTS, attrgetter(*_WORKER_COUNTS)(report.statistics), strict=True))
            if report.process is not None:
                use = report.process
                part.update(pid=use.pid, node=use.node, rss=use.rss, cpu_seconds=round(use.cpu_seconds, 2))
        busy = self._busy.get(worker) if job_state not in _ENDED else None
        if busy is not None and busy.operator is not None:
            part["busy"] = {"operator": self._numbers.of_name[busy.operator], **_call(busy)}
        return part

    def _topic(self, name: str, partitions: Sequence[Mapping[str, int]]) -> Document:
        is_durable = any("subscriptions" in counts for counts in partitions)
        at: Location = Target(self._facts.plan.topics[name], 0)
        return {
            "operator": self._numbers.at(at),
            "delivery": "exactly_once" if is_durable else "best_effort",
            "partitions": {str(number): dict(counts) for number, counts in enumerate(partitions)},
        }


def _is_report(answer: WorkerReport | BusyWorker) -> bool:
    return isinstance(answer, WorkerReport)


def _call(busy: BusyWorker) -> Document:
    said: Document = {"seconds": round(busy.seconds, 1)}
    if busy.time is not None:
        said["time"] = repr(busy.time)
    return said


def _sums(counted: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Document]:
    if not counted:
        return {}
    counts_of = attrgetter(*names)
    rows = zip(*(map(counts_of, one.values()) for one in counted), strict=True)
    sums = ((round(total, 4) for total in map(sum, zip(*row, strict=True))) for row in rows)
    return {key: dict(zip(names, summed, strict=True)) for key, summed in zip(counted[0], sums, strict=True)}
