"""`Job.explain` where an operator may be right to keep a token or a message: it leads on to what would have it run."""

import threading
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import DEADLINE_S, flow_of, scheduled, settle
from tests.kit.runtime.stuck_flows import deploy, every_spread, hoarding, straight, windows
from tidewheel.progress import SpreadName
from tidewheel.runtime.description.plan import Schedule

LEAKED = (
    "nothing schedules {!r} again. Unless a thread still works on it, which then has to call context.activate(), the "
)


def whats(explanation: tw.types.Explanation) -> list[str]:
    return [holder.what for holder in explanation.holders]


# ---------------------------------------------------------------------- operators that wait rightly


@every_spread
def test_a_window_that_is_not_over_leads_on_to_its_input(progress: SpreadName) -> None:
    """An operator that keeps the token of the first epoch of ten is not said never to run again; the input is named."""
    with deploy(flow_of(windows, "window"), 2, progress) as job:
        for epoch in range(6):
            job.input("numbers").send([1])
            job.input("numbers").advance_to(epoch + 1)
        settle(job)
        explanation = job.explain("done")
        window, numbers = explanation.holders
        assert window.what.endswith(", though its inputs have passed that time")
        assert "nothing schedules" not in window.advice
        assert window.advice.startswith("probably the token leaked: discard() or downgrade() it once input.frontier")
        assert window.advice.endswith("Otherwise 'window' waits until its input 0 passes 6")
        assert numbers.what == "input 'numbers' is at time 6 on workers 0, 1"
        assert numbers.advice == "job.input('numbers').advance_to(...) or close() lets it go on"
        assert (numbers.port, numbers.arrives) == ("input 0 of 'window'", 6)
        assert "\n   reaches input 0 of 'window' at 6, by input numbers > window (time unchanged)\n" in str(explanation)
        job.input("numbers").advance_to(10)
        job.probe("done").wait_until(10, DEADLINE_S)
        job.stop()


@every_spread
def test_what_a_notificator_keeps_is_kept_on_purpose(progress: SpreadName) -> None:
    """No leak is spoken of: windows on event time hold their last epoch, other operators one that is not complete."""
    flow = tw.Dataflow("by minute")
    by_minute = flow.input("hits", int).window(tw.TumblingWindows(60), key=abs, at=abs)
    by_minute.results.sort(repr).probe("done")
    by_minute.late.ignore()
    with deploy(flow, 2, progress) as job:
        hits = job.input("hits")
        hits.send([5])
        settle(job)
        for holder in job.explain("done").holders:
            assert "leak" not in str(holder)
        hits.advance_to(1)
        settle(job)
        explanation = job.explain("done")
        at_input, window = explanation.holders
        assert (at_input.operator, at_input.port) == ("input hits", "input 0 of 'window'")
        assert window.what.startswith("operator 'window' holds 1 token for time 0 on worker ")
        assert window.what.endswith(", though its inputs have passed that time")
        assert window.advice.startswith(
            "its notificator keeps it on purpose: 'window' waits until its input 0 passes 1"
        )
        hits.close()
        job.wait(DEADLINE_S)


def gated(*, reads_late: bool = False) -> tw.Dataflow:
    """Return a dataflow whose operator lets data pass once its control input, which lends no token, has passed."""

    def build(context: tw.OperatorContext) -> Schedule:
        held: list[tuple[tw.TimestampToken, Any]] = []

        def schedule(data: tw.InputPort, control: tw.InputPort, output: tw.OutputPort) -> None:
            for _ in control:
                pass
            if not (reads_late and control.frontier.less_equal(0)):
                held.extend((lent.retain(output), batch) for lent, batch in data)
            while held and not control.frontier.less_equal(held[0][0].time):
                token, batch = held.pop(0)
                with token:
                    output.send(token, batch)

        return schedule

    flow = tw.Dataflow("gated")
    data, control = flow.input("data"), flow.input("control").map(abs)
    (made,) = flow.operator(
        [data, control], 1, build, {(0, 0): tw.progress.PathSummary.identity(data.nesting)}, name="gate"
    )
    made.probe("done").capture("results")
    return flow


@every_spread
@pytest.mark.parametrize("reads_late", [False, True])
def test_an_input_that_lends_no_token_may_be_what_is_waited_for(reads_late: bool, progress: SpreadName) -> None:
    """The control input comes first, with what to do about it; that does it. It is no leak."""
    with deploy(gated(reads_late=reads_late), 2, progress) as job:
        job.input("data").send([1])
        job.input("data").advance_to(1)
        with pytest.raises(tw.JobError) as failed:
            job.probe("done").wait_until(1)
        control, gate = job.explain("done").holders
        assert control.what == "input 'control' is at time 0 on workers 0, 1"
        assert control.advice == "job.input('control').advance_to(...) or close() lets it go on"
        assert (control.port, control.route) == ("input 1 of 'gate'", ("input control", "map", "gate"))
        assert gate.operator == "gate"
        if reads_late:
            assert gate.advice.endswith("or it waits until its input 1 passes 0")
        else:
            assert gate.advice.startswith("'gate' runs again when its input 1 passes 0; if it does not wait for that, ")
        assert "1. input 'control' is at time 0" in str(failed.value)
        assert "input 'data'" not in str(failed.value)
        job.input("control").advance_to(1)
        job.probe("done").wait_until(1, DEADLINE_S)
        job.stop()


def test_what_is_waited_for_is_found_through_several_operators() -> None:
    """A gate whose control comes out of another gate waits for the control input of that one."""

    def gate(context: tw.OperatorContext) -> Schedule:
        tokens = [context.token()]

        def schedule(control: tw.InputPort, output: tw.OutputPort) -> None:
            for _ in control:
                pass
            if tokens and not len(control.frontier):
                tokens.pop().discard()

        return schedule

    flow = tw.Dataflow("gates")
    stream = flow.input("control")
    for number in range(3):
        (stream,) = flow.operator([stream], 1, gate, summaries={}, name=f"gate {number}")
    stream.probe("done")
    with deploy(flow, 1) as job:
        settle(job)
        assert [(holder.operator, holder.port) for holder in job.explain("done").holders] == [
            ("input control", "input 0 of 'gate 0'"),
            ("gate 0", "input 0 of 'gate 1'"),
            ("gate 1", "input 0 of 'gate 2'"),
            ("gate 2", ""),
        ]
        job.input("control").close()
        job.wait(DEADLINE_S)


def test_an_operator_without_notification_waits_for_messages() -> None:
    """It is not scheduled when a frontier moves, and not told to look at one."""
    kept: list[tw.TimestampToken] = []
    flow = tw.Dataflow("unnotified")
    (made,) = flow.operator([flow.input("numbers")], 1, hoarding(kept), notify=False, name="deaf")
    made.probe("done")
    with deploy(flow, 1) as job:
        job.input("numbers").send([1])
        job.input("numbers").advance_to(2)
        settle(job)
        advice = job.explain("done").holders[0].advice
        assert advice.endswith("'deaf' waits until a message comes to its input 0")
        assert "frontier" not in advice
        kept.pop().discard()
        job.stop()


# ---------------------------------------------------------------------- operators that never run again


@every_spread
def test_a_token_at_an_operator_whose_inputs_have_ended_leaked(progress: SpreadName) -> None:
    """Nothing schedules it again, which is said then only."""
    kept: list[tw.TimestampToken] = []
    with deploy(flow_of(hoarding(kept), "leaky"), 2, progress) as job:
        job.input("numbers").send([1])
        job.input("numbers").close()
        settle(job)
        [holder] = job.explain("done").holders
        assert holder.what.endswith(", though its inputs have ended")
        assert holder.advice.startswith(LEAKED.format("leaky") + "token leaked: discard()")
        kept.pop().discard()
        job.stop()


def test_a_token_that_only_its_own_loop_waits_for_leaked() -> None:
    """That its input can still get something is no way out where that can only come of the token itself."""
    kept: list[tw.TimestampToken] = []
    flow = tw.Dataflow("ring")

    def body(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        held = numbers.unary(hoarding(kept), name="keep")
        return held.filter(lambda number: False), held

    flow.input("numbers").iterate(body, name="ring").probe("done")
    with deploy(flow, 1) as job:
        job.input("numbers").send([1])
        job.input("numbers").advance_to(1)
        settle(job)
        assert [holder.operator for holder in job.explain("done").holders] == ["ring/keep", "input numbers"]
        job.input("numbers").close()
        settle(job)
        [holder] = job.explain("done").holders
        assert holder.advice.startswith(LEAKED.format("ring/keep"))
        kept.pop().discard()
        job.wait(DEADLINE_S)


@every_spread
@pytest.mark.parametrize("workers", [1, 3])
def test_who_is_said_never_to_run_again_never_does(workers: int, progress: SpreadName) -> None:
    """Also in the middle of a run, while the news that inputs have ended is under way to the operator's worker."""
    kept: list[tw.TimestampToken] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, _ in input:
            kept.append(lent.retain())
        while len(kept) > 1 and not len(input.frontier):
            kept.pop().discard()

    flow = tw.Dataflow("late")
    flow.input("numbers").exchange(lambda n: n).unary(scheduled(schedule), name="late").probe("done")
    with deploy(flow, workers, progress) as job:
        for number in range(6):
            job.input("numbers").send([number])
        job.input("numbers").close()
        claimed: dict[int, int] = {}
        running = True
        while running:
            for holder in job.explain("done").holders if kept else ():
                if "nothing schedules 'late'" in holder.advice:
                    schedules = [one.operators["late"].schedules for one in job.statistics().workers]
                    claimed.update({worker: schedules[worker] for worker in holder.workers if worker not in claimed})
            running = job.run_round()
        assert claimed
        assert {worker: job.statistics().workers[worker].operators["late"].schedules for worker in claimed} == claimed
        kept.pop().discard()
        job.wait(DEADLINE_S)


@every_spread
def test_workers_on_which_the_operator_is_about_to_run_are_not_accused(progress: SpreadName) -> None:
    """Where one worker has work left and another forgot its token, only the token of the other is told."""

    def build(context: tw.OperatorContext) -> Schedule:
        tokens.append(context.token())

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            if context.worker == 0 and tokens[0].is_live:
                context.activate()

        return schedule

    tokens: list[tw.TimestampToken] = []
    with deploy(flow_of(build, "uneven"), 2, progress) as job:
        job.input("numbers").close()
        for _ in range(10):
            job.run_round()
        [holder] = job.explain("done").holders
        assert holder.what == "operator 'uneven' holds 1 token for time 0 on worker 1, though its inputs have ended"
        assert holder.workers == (1,)
        tokens[1].discard()
        for _ in range(10):
            job.run_round()
        assert [(one.workers, one.advice) for one in job.explain("done").holders] == [
            ((0,), "'uneven' is about to run")
        ]
        tokens[0].discard()
        job.wait(DEADLINE_S)


def test_a_token_that_a_thread_works_on_may_be_no_leak() -> None:
    """What the thread has to do in the end is said; then the frontier moves."""
    go_on = threading.Event()

    def build(context: tw.OperatorContext) -> Schedule:
        done: list[tuple[tw.TimestampToken, Any]] = []

        def work(token: tw.TimestampToken, batch: Any) -> None:
            go_on.wait(DEADLINE_S)
            done.append((token, batch))
            context.activate()

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                threads.append(threading.Thread(target=work, args=(lent.retain(), batch)))
                threads[-1].start()
            while done:
                token, batch = done.pop()
                with token:
                    output.send(token, batch)

        return schedule

    threads: list[threading.Thread] = []
    with deploy(flow_of(build, "slow"), 1) as job:
        job.input("numbers").send([1])
        job.input("numbers").close()
        settle(job)
        [holder] = job.explain("done").holders
        assert holder.advice.startswith(LEAKED.format("slow"))
        go_on.set()
        threads[0].join(DEADLINE_S)
        assert job.explain("done").holders[0].advice == "'slow' is about to run"
        job.wait(DEADLINE_S)


# ---------------------------------------------------------------------- frontiers, names, jobs


class Pairs(tw.progress.TimeDomain):
    """Pairs of numbers in product order, whose summaries are pairs too."""

    def minimum(self) -> Any:
        return (0, 0)

    def less_equal(self, a: Any, b: Any) -> bool:
        return bool(a[0] <= b[0] and a[1] <= b[1])

    def identity(self) -> Any:
        return (0, 0)

    def results_in(self, summary: Any, time: Any) -> Any:
        return (time[0] + summary[0], time[1] + summary[1])

    def followed_by(self, first: Any, then: Any) -> Any:
        return self.results_in(then, first)

    def summary_less_equal(self, a: Any, b: Any) -> bool:
        return self.less_equal(a, b)

    def contains(self, time: Any) -> bool:
        return isinstance(time, tuple) and len(time) == 2


def test_a_holder_that_holds_several_elements_is_told_for_each() -> None:
    """One token that arrives by two paths at two times explains both, each with its path."""
    flow = tw.Dataflow("two", Pairs())
    numbers = flow.input("numbers")
    summaries = [tw.progress.PathSummary(numbers.nesting, numbers.nesting, (by,)) for by in [(1, 0), (0, 1)]]
    (made,) = flow.operator([numbers], 1, lambda context: lambda input, output: None, {(0, 0): summaries}, name="two")
    made.probe("done")
    with deploy(flow, 1) as job:
        settle(job)
        explanation = job.explain("done")
        assert set(explanation.frontier) == {(1, 0), (0, 1)}
        assert [(one.operator, one.arrives, one.path.results_in(one.time)) for one in explanation.holders] == [
            ("input numbers", (1, 0), (1, 0)),
            ("input numbers", (0, 1), (0, 1)),
        ]
        job.stop()


def test_edges_and_routes_name_stages() -> None:
    """Whoever reads of an operator finds it in the statistics, though it runs as part of a chain."""
    flow = tw.Dataflow("chains")
    stream = flow.input("numbers").exchange(abs)
    for _ in range(4):
        stream = stream.map(abs)
    stream.unary(hoarding([]), name="hold")
    stream.exchange(abs).probe("done")
    with deploy(flow, 1) as job:
        settle(job)
        statistics = job.statistics()
        assert [(edge.source, edge.target) for edge in statistics.edges] == [
            ("output 0 of 'input numbers'", "input 0 of 'exchange'"),
            ("output 0 of 'map-4'", "input 0 of 'hold'"),
            ("output 0 of 'map-4'", "input 0 of 'exchange-2'"),
        ]
        [holder] = job.explain("done").holders
        assert holder.route == ("input numbers", "exchange", "map", "map-2", "map-3", "map-4", "exchange-2")
        assert set(holder.route) <= set(statistics.operators)
        job.stop()


def test_messages_before_a_chain_are_for_its_first_stage() -> None:
    """The operator that a message waits at is named, not the chain."""
    flow = tw.Dataflow("chain")
    flow.input("numbers").exchange(lambda number: 0).map(abs).probe("done")
    with deploy(flow, 2) as job:
        for _ in range(2):
            job.input("numbers").send([1])
        job.input("numbers").close()
        seen = set()
        while job.run_round():
            seen |= {(one.operator, one.what) for one in job.explain("done").holders if "message" in one.what}
        assert seen == {("exchange", "1 message at time 0 on the way to input 0 of 'exchange'")}
        job.stop()


def test_a_probe_of_another_job_is_refused() -> None:
    """Though both have a probe of that name."""
    with deploy(straight()) as first, deploy(straight()) as second:
        assert first.explain(first.probe("done")).name == "done"
        with raises(tw.JobError):
            first.explain(second.probe("done"))
        first.stop()
        second.stop()
