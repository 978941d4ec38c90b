"""Why a frontier is where it is: what holds it back, by which path, and what can be done about it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidewheel.progress import Antichain, Location, PathSummary, Source, Target, Time
from tidewheel.runtime.job_view import JobView
from tidewheel.runtime.worker_report import BusyWorker

_MANY_ROUNDS = 1000
_MOST_SHOWN = 8
_LONG_ROUTE = 7
_LEAKED = (
    "nothing schedules the operator for that time again, so the token leaked: discard() or downgrade() it once "
    "input.frontier has passed its time, or call context.activate() while there is work left"
)
_UNREAD = (
    "is scheduled again only when something new comes: iterate over the input to its end, or call context.activate()"
)


class InputState(Protocol):
    """What an explanation has to know of an input's handle."""

    @property
    def time(self) -> Time:
        """The time at which it sends."""

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Tokens or messages that hold a frontier back.

    Attributes:
        what: who they are, in words: ``operator 'sort' holds 2 tokens for time 3 on worker 1``.
        operator: the operator that holds the tokens, or that the messages are for.
        time: their time.
        workers: the workers on which they are; empty for messages that are on their way.
        path: the path summary by which they reach the frontier, and by ``route`` the operators on the way.
        arrives: the time at which they can arrive there.
        advice: what can be done, in words; empty if they only wait for holders listed before.
    """

    what: str
    operator: str
    time: Time
    workers: tuple[int, ...]
    path: PathSummary
    route: tuple[str, ...]
    arrives: Time
    advice: str

    def __str__(self) -> str:
        route = " > ".join(_shortened(self.route))
        lines = [self.what, f"   reaches it at {self.arrives!r}, by {route} (time {self.path.describe()})"]
        return "\n".join(lines + [f"   -> {self.advice}"] * bool(self.advice))


@dataclass(frozen=True, slots=True)
class Explanation:
    """What holds the frontier at a probe or topic back; print it to read it.

    Attributes:
        name: the probe or topic.
        frontier: the earliest times that can still arrive there; empty once it has ended.
        holders: what holds it back; those that wait for others come after them.
        busy: workers that did not answer because an operator of theirs was running.
        notes: what else may matter.
    """

    name: str
    frontier: Antichain
    holders: tuple[Holder, ...] = ()
    busy: tuple[BusyWorker, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        if not len(self.frontier) and not self.busy:
            return f"{self.name!r} is complete: nothing can arrive there any more"
        times = ", ".join(map(repr, self.frontier))
        lines = [f"{self.name!r} waits: times from {times} on can still arrive there"]
        lines += [_busy_text(worker) for worker in self.busy]
        lines += [f"{number}. {holder}" for number, holder in enumerate(self.holders[:_MOST_SHOWN], 1)]
        if len(self.holders) > _MOST_SHOWN:
            lines.append(f"and {len(self.holders) - _MOST_SHOWN} more like these")
        return "\n".join([*lines, *self.notes])

    __repr__ = __str__


class Explainer:
    """Finds what holds the frontier at one location back.

    Args:
        view: the job.
        end: the location.
        inputs: the driver's handles.
    """

    def __init__(self, view: JobView, end: Location, inputs: Mapping[str, InputState]) -> None:
        self._view = view
        self._compiled = view.compiled
        self._end = end
        self._inputs = inputs
        self._frontier = view.frontier(end)

    def explain(self, name: str, notes: tuple[str, ...]) -> Explanation:
        """Return the explanation."""
        found = list(self._holders())
        causes = [holder for holder in found if not self._waits_for_another(holder, found)]
        others = [holder for holder in found if self._waits_for_another(holder, found)]
        return Explanation(
            name,
            self._frontier,
            tuple(self._describe(*holder) for holder in causes)
            + tuple(self._describe(*holder, waits=True) for holder in others),
            tuple(self._view.busy),
            notes,
        )

    def _holders(self) -> Iterator[tuple[int, Time, PathSummary]]:
        """Yield the pointstamps that can arrive at an element of the frontier, each by one path."""
        for location, time in self._view.live:
            paths = self._compiled.summaries(self._compiled.locations[location], self._end)
            holding = (path for path in paths if path.results_in(time) in self._frontier)
            first = next(holding, None)
            if first is not None:
                yield location, time, first

    def _waits_for_another(
        self, holder: tuple[int, Time, PathSummary], found: list[tuple[int, Time, PathSummary]]
    ) -> bool:
        """Tell whether another holder can still bring about this one."""
        location, time, _ = holder
        end = self._compiled.locations[location]
        less_equal = self._compiled.domains[location].less_equal
        for other, other_time, _ in found:
            if (other, other_time) == (location, time):
                continue
            for path in self._compiled.summaries(self._compiled.locations[other], end):
                arrival = path.results_in(other_time)
                if arrival is not None and less_equal(arrival, time):
                    return True
        return False

    # ------------------------------------------------------------------ in words

    def _describe(self, location: int, time: Time, path: PathSummary, *, waits: bool = False) -> Holder:
        at = self._compiled.locations[location]
        if isinstance(at, Source):
            workers = tuple(self._view.tokens.get((location, time), {}))
            what, advice = self._describe_token(at, time, workers)
        else:
            workers = tuple(self._view.queued.get((location, time), {}))
            what, advice = self._describe_messages(at, location, time)
        return Holder(
            what + self._in_loop(at, time) + (" (waits for the above)" if waits else ""),
            self._name(at),
            time,
            workers,
            path,
            self._route(at, path),
            path.results_in(time),
            "" if waits else advice,
        )

    def _name(self, at: Location) -> str:
        return self._view.plan.operators[at.operator].name

    def _describe_token(self, at: Source, time: Time, workers: tuple[int, ...]) -> tuple[str, str]:
        plan = self._view.plan
        name = next((name for name, operator in plan.inputs.items() if operator == at.operator), None)
        if name is not None:
            return self._describe_input(name, time, workers)
        operator = self._name(at)
        count = self._view.live[self._compiled.index[at], time]
        held = f"operator {operator!r} holds {_several(count, 'token')} for time {time!r}{_on(workers)}"
        shape = plan.operators[at.operator].shape
        if not shape.inputs:
            return held, f"{operator!r} has no inputs: it has more to send, or forgot to downgrade() or discard()"
        if not any(paths for (_, port), paths in shape.summaries.items() if port == at.port):
            return held, f"no input of {operator!r} leads there: it has more to send, or forgot to discard() it"
        if self._runs_next(at.operator, workers):
            return held, f"{operator!r} runs in the next step of its worker"
        if self._can_still_get(at, time):
            return held, "its inputs have not passed that time yet"
        if not self._could_ever_get(at, time):
            return held, f"no message lends it such a token: {operator!r} has to downgrade() or discard() it by itself"
        return (
            f"{held}, though its inputs have passed that time",
            _LEAKED,
        )

    def _describe_input(self, name: str, time: Time, workers: tuple[int, ...]) -> tuple[str, str]:
        state = self._inputs[name]
        what = f"input {name!r} is at time {time!r}{_on(workers)}"
        if state.is_closed or state.time != time:
            now = "closed it" if state.is_closed else f"took it to {state.time!r}"
            return what, f"the driver {now}; those workers have not come to that yet"
        return what, f"job.input({name!r}).advance_to(...) or close() lets it go on"

    def _runs_next(self, operator: int, workers: tuple[int, ...]) -> bool:
        """Tell whether an operator will be scheduled on all of ``workers``, though nothing new arrives."""
        running = {report.worker for report in self._view.reports if operator in report.scheduled}
        return bool(workers) and running.issuperset(workers)

    def _could_ever_get(self, at: Source, time: Time) -> bool:
        """Tell whether a message at some time lets its receiver send at ``time`` on this output."""
        shape = self._view.plan.operators[at.operator].shape
        less_equal = shape.outputs[at.port].domain.less_equal
        arrivals = (
            path.results_in(shape.inputs[port_in].domain.minimum())
            for (port_in, port_out), paths in shape.summaries.items()
            if port_out == at.port
            for path in paths
        )
        return any(arrival is not None and less_equal(arrival, time) for arrival in arrivals)

    def _can_still_get(self, at: Source, time: Time) -> bool:
        """Tell whether a message can still come that lets its receiver send at ``time`` on this output."""
        shape = self._view.plan.operators[at.operator].shape
        less_equal = shape.outputs[at.port].domain.less_equal
        for (port_in, port_out), paths in shape.summaries.items():
            if port_out == at.port:
                arrivals = (
                    path.results_in(earliest)
                    for earliest in self._view.frontier(Target(at.operator, port_in))
                    for path in paths
                )
                if any(arrival is not None and less_equal(arrival, time) for arrival in arrivals):
                    return True
        return False

    def _describe_messages(self, at: Target, location: int, time: Time) -> tuple[str, str]:
        count = self._view.live[location, time]
        port = self._compiled.graph.describe(at)
        waiting = self._view.queued.get((location, time), {})
        workers = tuple(waiting)
        if not waiting:
            return f"{_several(count, 'message')} at time {time!r} on the way to {port}", "they have yet to arrive"
        what = f"{_several(sum(waiting.values()), 'message')} at time {time!r} at {port}{_on(workers)}"
        if self._runs_next(at.operator, workers):
            return what, f"{self._name(at)!r} takes them when it runs next"
        return (
            f"{what}, unread",
            f"{self._name(at)!r} returned without reading them, and {_UNREAD}",
        )

    def _in_loop(self, at: Location, time: Time) -> str:
        nesting = self._compiled.graph.nesting(at)
        if not nesting.depth:
            return ""
        rounds = nesting.coordinates(time)[1:]
        text = f", in round {rounds[-1]!r} of its loop"
        if any(isinstance(number, int) and number >= _MANY_ROUNDS for number in rounds):
            text += "; if it should have ended by now, see that what the loop feeds back gets less"
        return text

    def _route(self, start: Location, path: PathSummary) -> tuple[str, ...]:
        """Return the operators on a shortest way from ``start`` whose summary is ``path``."""
        names: list[str] = []
        for location in self._compiled.route(start, self._end, path):
            name = self._name(location)
            if not names or names[-1] != name:
                names.append(name)
        return tuple(names)


def _several(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _on(workers: tuple[int, ...]) -> str:
    if not workers:
        return ""
    return f" on worker {workers[0]}" if len(workers) == 1 else f" on workers {', '.join(map(str, workers))}"


def _shortened(route: tuple[str, ...]) -> tuple[str, ...]:
    if len(route) <= _LONG_ROUTE:
        return route
    return (*route[:3], f"{len(route) - 6} more", *route[-3:])


def _busy_text(worker: BusyWorker) -> str:
    if worker.operator is None:
        return f"worker {worker.worker} did not answer"
    at = "" if worker.time is None else f" at time {worker.time!r}"
    return (
        f"worker {worker.worker} did not answer: it has been in operator {worker.operator!r}{at} for "
        f"{worker.seconds:.1f} s, and nothing else runs there meanwhile"
    )
