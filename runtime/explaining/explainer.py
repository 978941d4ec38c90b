"""The search for the tokens and messages that hold a frontier back, their paths, and what to do."""

from collections import deque
from dataclasses import dataclass, replace
from itertools import islice

from tidewheel.progress import Location, Target, Time
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.plan import OperatorPlan, Plan
from tidewheel.runtime.explaining.explanation import Explanation, Holder
from tidewheel.runtime.explaining.job_view import JobView, Reach
from tidewheel.runtime.inputs.feed import Feed
from tidewheel.runtime.messages.worker_report import NEXT_SNAPSHOT

PAUSED = "the job was deployed with paused=True and has not been started: call start()"
"""Why a job that was never started makes no progress."""

_MANY_ROUNDS = 1000
_MOST_REASONS = 5
_UNREAD = (
    "is scheduled again only when something new comes: iterate over the input to its end, or call context.activate()"
)
_HELD_UNTIL_WHOLE = (
    'with bound="firm" a substream waits there until all of it has come: end it. In a loop it also waits for the end '
    "of the substreams that were closed before it. So no operator of the loop must keep their tokens until a time is "
    "complete"
)
_HELD_UNTIL_MARKED = "their key is used again, and waits until the marker of what had it before has gone on"


@dataclass(frozen=True, slots=True)
class _Account:
    """A report on a pointstamp: its holder, the advice, and the inputs that its operator may wait for.

    With ``told_last``, the report comes after the causes at those inputs, since its operator may be right to wait.
    """

    what: str
    advice: str
    workers: tuple[int, ...] = ()
    ports: tuple[Target, ...] = ()
    told_last: bool = False


def explicable(plan: Plan) -> dict[str, Location]:
    """Return the locations whose names `explain` accepts: probes first, then topics, captures and look-ups."""
    ends = {**plan.lookups, **plan.captures, **plan.topics}
    return {**{name: Target(operator, 0) for name, operator in ends.items()}, **plan.probes}


class Explainer:
    """Finds what holds back the frontiers of one job.

    Args:
        feed: the driver's feed of the job's inputs; None in another process.
    """

    def __init__(self, view: JobView, feed: Feed | None, notes: tuple[str, ...] = (), next_snapshot: str = "") -> None:
        self._view = view
        self._compiled = view.compiled
        self._plan = view.plan
        self._feed = feed
        self._notes = notes
        self._next_snapshot = next_snapshot
        self._ends = explicable(view.plan)
        self._input_names = {operator: name for name, operator in view.plan.inputs.items()}

    def explain(self, name: str) -> Explanation:
        """Return the holders of the frontier at a probe, topic or capture.

        Complexity: the size of the graph before the location, and of the result.
        """
        end = self._ends[name]
        found = list(self._view.holding(end))
        listed = {(reach.location, reach.time) for reach in found}
        first = {stamp: self._view.is_first(*stamp) for stamp in listed}
        walked: set[tuple[int, Time]] = set()
        holders: list[Holder] = []
        for reach in found:
            if first[reach.location, reach.time]:
                holders += self._describe_cause(reach, listed, walked)
        for reach in found:
            if not first[reach.location, reach.time]:
                holders.append(self._holder(reach, self._account(reach, waits=True)))
        notes = (*self._notes, *self._view.open_substreams())
        return Explanation(name, self._view.frontier(end), tuple(holders), tuple(self._view.busy), notes)

    def _describe_cause(
        self, cause: Reach, listed: set[tuple[int, Time]], walked: set[tuple[int, Time]]
    ) -> list[Holder]:
        holders: list[Holder] = []
        told_last = self._account(cause).told_last
        waiting: deque[tuple[Reach, str]] = deque([(cause, "")])
        while waiting:
            reach, port = waiting.popleft()
            said = self._account(reach)
            holders.append(self._holder(reach, said, port))
            for target in said.ports:
                for behind in self._view.first_holding(target, walked):
                    if (behind.location, behind.time) not in listed:
                        listed.add((behind.location, behind.time))
                        waiting.append((behind, self._plan.describe(target)))
        return holders[::-1] if told_last else holders

    # ------------------------------------------------------------------ a job with nothing left to do

    def stuck(self, probe: str | None) -> str:
        """Return why ``probe``, or with None the whole job, is not complete although no work is left."""
        assert self._feed is not None, "only a driver asks"
        is_fed = bool(self._feed.inputs.left_open)
        if probe is not None:
            explanation = self.explain(probe)
            if not is_fed:
                return f"all inputs are closed, but {explanation}"
            if self._needs_more_than_inputs(explanation):
                return str(explanation)
            holders = {holder.operator for holder in explanation.holders}
            behind = {
                name for operator, name in self._input_names.items() if self._plan.operators[operator].name in holders
            }
            return f"advance or close the inputs first ({self._feed.inputs.describe(behind)})"
        explanations = (self.explain(name) for name, end in self._ends.items() if len(self._view.frontier(end)))
        if not is_fed:
            return f"all inputs are closed, but {next(explanations, None) or self._held()}"
        others = [one for one in self._view.live if self._compiled.locations[one[0]].operator not in self._input_names]
        if any(self._view.is_first(location, at) for location, at in others):
            amiss = next(filter(self._needs_more_than_inputs, explanations), None)
            if amiss is not None:
                return str(amiss)
        return f"advance or close the inputs first ({self._feed.inputs.describe()})"

    def _needs_more_than_inputs(self, explanation: Explanation) -> bool:
        inputs = {self._plan.operators[operator].name for operator in self._input_names}
        return any(holder.advice and holder.operator not in inputs for holder in explanation.holders)

    def _held(self) -> str:
        texts = []
        for (location, time), count in islice(self._view.live.items(), _MOST_REASONS):
            where = self._plan.describe(self._compiled.locations[location])
            if self._view.is_source(location):
                texts.append(f"{where} holds {count} token(s) for time {time!r}")
            else:
                texts.append(f"{count} message(s) at time {time!r} wait at {where}")
        return "; ".join(texts)

    # ------------------------------------------------------------------ in words

    def _holder(self, reach: Reach, said: _Account, port: str = "") -> Holder:
        at = self._compiled.locations[reach.location]
        return Holder(
            said.what + self._in_loop(at, reach.time) + (" (waits for the above)" if not said.advice else ""),
            self._plan.name_at(at),
            reach.time,
            said.workers,
            reach.path,
            reach.route,
            reach.arrives,
            said.advice,
            port,
        )

    def _account(self, reach: Reach, *, waits: bool = False) -> _Account:
        at = self._compiled.locations[reach.location]
        if isinstance(at, Target):
            said = self._of_messages(at, reach)
        elif at.operator in self._input_names:
            said = self._of_input(self._input_names[at.operator], reach)
        else:
            said = self._of_token(at, reach, waits=waits)
        return replace(said, advice="") if waits else said

    def _of_input(self, name: str, reach: Reach) -> _Account:
        time = reach.time
        substreams = self._view.substreams_of(self._plan.inputs[name])
        workers = tuple(self._view.tokens.get((reach.location, time), {}))
        what = f"input {name!r} is at time {time!r}{_on(workers)}"
        feeders = [process for report in self._view.reports for process in report.feeders]
        known = f" (open ones are in {', '.join(feeders)})" if feeders else ""
        if self._feed is None:
            advice = f"a handle of the driver or of another process has to advance_to(...) or close(){known}"
            return _Account(what, advice, workers)
        state = self._feed.inputs[name]
        if time in state.times:
            which = f"job.input({name!r})." if state.is_at(time) else "its handle at that time: "
            has_open = any(one.count for one in substreams)
            ends = "; its substreams end by end_substream(...) or close()" if has_open else ""
            return _Account(what, f"{which}advance_to(...) or close() lets it go on{ends}", workers)
        if state.handed_over:
            advice = (
                f"{_elsewhere(state.handed_over)} may be at that time, and has to advance_to(...) or close(){known}"
            )
            return _Account(what, advice, workers)
        if any(one.waiting for one in substreams):
            return _Account(what, "records of keys that are used again wait in it: see below", workers)
        now = f"took it to {', '.join(map(repr, state.times))}" if state.times else "closed it"
        return _Account(what, f"the driver {now}; those workers have not come to that yet", workers)

    def _of_token(self, at: Source, reach: Reach, *, waits: bool) -> _Account:
        plan, operator = self._plan.operators[at.operator], self._plan.name_at(at)
        stamp = (reach.location, reach.time)
        holding = self._view.tokens.get(stamp, {})
        idle = tuple(worker for worker in holding if waits or not self._will_run(at.operator, plan, worker, stamp))
        workers = idle or tuple(holding)
        running = sum(holding[worker] for worker in holding if worker not in workers)
        count = _several(self._view.live[stamp] - running, "token")
        held = f"operator {operator!r} holds {count} for time {reach.time!r}{_on(workers)}"
        if not holding:
            return _Account(held, "a worker that did not answer has it")
        waits_for = self._waits_for(at.operator, workers)
        if waits_for and not waits and (idle or self._is_expecting(at.operator, workers)):
            return self._by_design(operator, waits_for, held, workers)
        if waits or not idle:
            return _Account(held, self._when_it_runs(at.operator, operator, workers), workers)
        if not plan.shape.inputs:
            advice = f"{operator!r} has no inputs: it has more to send, or forgot to downgrade() or discard()"
            return _Account(held, advice, workers)
        return self._of_idle(at, reach, held, workers)

    def _is_expecting(self, number: int, workers: tuple[int, ...]) -> bool:
        expecting = {report.worker for report in self._view.reports if number in report.expected}
        return bool(workers) and expecting.issuperset(workers)

    def _waits_for(self, number: int, workers: tuple[int, ...]) -> str:
        said = [report.waits_for.get(number, "") for report in self._view.reports if report.worker in workers]
        return next(filter(None, said), "")

    def _by_design(self, operator: str, waits_for: str, held: str, workers: tuple[int, ...]) -> _Account:
        if waits_for != NEXT_SNAPSHOT:
            return _Account(f"{held}, and waits for {waits_for}", f"{operator!r} goes on once that has come", workers)
        advice = f"{operator!r} goes on once that snapshot is durable; job.snapshot() takes one now"
        return _Account(f"{held}, and waits for {self._next_snapshot or waits_for}", advice, workers)

    def _when_it_runs(self, number: int, operator: str, workers: tuple[int, ...]) -> str:
        if self._is_expecting(number, workers):
            return f"{operator!r} expects a thread to call context.activate()"
        return f"{operator!r} is about to run"

    def _of_idle(self, at: Source, reach: Reach, held: str, workers: tuple[int, ...]) -> _Account:
        plan, operator = self._plan.operators[at.operator], self._plan.name_at(at)
        on_purpose = self._is_awaited(reach, workers)
        remedy = "discard() it once it is not needed"
        if on_purpose:
            remedy = "take it from its notificator by ready() or take()"
        elif plan.notify:
            remedy = "discard() or downgrade() it once input.frontier has passed its time"
        ports = self._open_ports(at.operator, plan)
        if not ports or self._view.is_alone_before(reach.location, reach.time, ports):
            advice = (
                f"nothing schedules {operator!r} again. Unless a thread still works on it, which then has to call "
                f"context.activate(), the token leaked: {remedy}"
            )
            return _Account(
                f"{held}, though its inputs have {'passed that time' if ports else 'ended'}", advice, workers
            )
        if on_purpose and plan.ends is not None and plan.ends.holds:
            advice = f"{operator!r} has records of substreams that have not ended, and waits for that: see below"
            return _Account(held, advice, workers, ports, told_last=True)
        behind = tuple(port for port in ports if not self._has_passed(port, at, reach.time))
        if behind:
            advice = f"{operator!r} runs again when {self._something_new(behind, plan)}"
            if not on_purpose:
                advice += f"; if it does not wait for that, the token leaked: {remedy}"
            return _Account(held, advice, workers, behind, told_last=True)
        held += ", though its inputs have passed that time"
        if on_purpose:
            advice = f"its notificator keeps it on purpose: {operator!r} waits until {self._something_new(ports, plan)}"
            return _Account(held, advice, workers, ports, told_last=True)
        advice = (
            f"probably the token leaked: {remedy}. While there is work left, or when a thread is done, call "
            f"context.activate(), and context.expect_activation() in each call until then. Otherwise "
            f"{operator!r} waits until {self._something_new(ports, plan)}"
        )
        return _Account(held, advice, workers, ports)

    def _is_awaited(self, reach: Reach, workers: tuple[int, ...]) -> bool:
        stamp = (reach.location, reach.time)
        held, awaited = self._view.tokens[stamp], self._view.awaited.get(stamp, {})
        return all(awaited.get(worker, 0) >= held[worker] for worker in workers)

    def _will_run(self, operator: int, plan: OperatorPlan, worker: int, stamp: tuple[int, Time]) -> bool:
        if (*stamp, worker) in self._view.kept:
            return False
        ports = [Target(operator, port) for port in range(len(plan.shape.inputs) if plan.notify else 0)]
        return self._runs_next(operator, (worker,)) or any(not self._view.has_heard(worker, port) for port in ports)

    def _runs_next(self, operator: int, workers: tuple[int, ...]) -> bool:
        running = {report.worker for report in self._view.reports if operator in report.scheduled}
        return bool(workers) and running.issuperset(workers)

    def _open_ports(self, operator: int, plan: OperatorPlan) -> tuple[Target, ...]:
        ports = (Target(operator, port) for port in range(len(plan.shape.inputs)))
        return tuple(port for port in ports if len(self._view.frontier(port)))

    def _has_passed(self, port: Target, at: Location, time: Time) -> bool:
        nestings = self._compiled.graph.nesting
        if nestings(port) == nestings(at):
            return not self._view.frontier(port).less_equal(time)
        shape = self._plan.operators[at.operator].shape
        return isinstance(at, Source) and (port.port, at.port) in shape.summaries

    def _something_new(self, ports: tuple[Target, ...], plan: OperatorPlan) -> str:
        if not plan.notify:
            return " or ".join(f"a message comes to its input {port.port}" for port in ports)
        return " or ".join(
            f"its input {port.port} passes {', '.join(map(repr, self._view.frontier(port)))}" for port in ports
        )

    def _of_messages(self, at: Target, reach: Reach) -> _Account:
        stamp, time, where = (reach.location, reach.time), reach.time, self._plan.describe(at)
        waiting = self._view.queued.get(stamp)
        counts = waiting or self._view.held.get(stamp)
        if not counts:
            count = _several(self._view.live[stamp], "message")
            return _Account(f"{count} at time {time!r} on the way to {where}", "they have yet to arrive")
        workers = tuple(counts)
        what = f"{_several(sum(counts.values()), 'message')} at time {time!r} at {where}{_on(workers)}"
        operator, plan = self._plan.name_at(at), self._plan.operators[at.operator]
        if not waiting:
            is_firm = plan.ends is not None and plan.ends.firm
            return _Account(f"{what}, held", _HELD_UNTIL_WHOLE if is_firm else _HELD_UNTIL_MARKED, workers)
        if self._runs_next(at.operator, workers):
            return _Account(what, f"{operator!r} takes them when it runs next", workers)
        advice = f"{operator!r} returned without reading them, and {_UNREAD}"
        if plan.ends is not None:
            advice += "; if an end is before them, look at it: for key in input.ended"
        others = (port for port in self._open_ports(at.operator, plan) if port != at)
        behind = tuple(port for port in others if plan.notify and not self._has_passed(port, at, time))
        if behind:
            advice += f"; or it waits until {self._something_new(behind, plan)}"
        return _Account(f"{what}, unread", advice, workers, behind, told_last=bool(behind))

    def _in_loop(self, at: Location, time: Time) -> str:
        nesting = self._compiled.graph.nesting(at)
        if not nesting.depth:
            return ""
        rounds = nesting.coordinates(time)[1:]
        text = f", in round {rounds[-1]!r} of its loop"
        if any(isinstance(number, int) and number >= _MANY_ROUNDS for number in rounds):
            text += "; if it should have ended by now, see that what the loop feeds back gets less"
        return text


def _several(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _on(workers: tuple[int, ...]) -> str:
    if not workers:
        return ""
    return f" on worker {workers[0]}" if len(workers) == 1 else f" on workers {', '.join(map(str, workers))}"


def _elsewhere(handles: int) -> str:
    return "the handle that was pickled" if handles == 1 else f"one of the {handles} handles that were pickled"
