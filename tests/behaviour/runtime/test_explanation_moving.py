"""`Job.explain` and `Job.statistics` while a job is moving: what is under way, dropped, busy or scheduled meanwhile."""

from collections.abc import Callable

import pytest

import tidewheel as tw
from tests.kit.runtime.one_operator import DEADLINE_S, captured, flow_of, settle
from tests.kit.runtime.stuck_flows import deploy, every_spread, hoarding, reading
from tidewheel.progress import CompiledGraph, SpreadName
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.runtime.explaining.explainer import Explainer
from tidewheel.runtime.explaining.explanation import Explanation
from tidewheel.runtime.explaining.job_view import JobView
from tidewheel.runtime.messages.worker_report import BusyWorker
from tidewheel.runtime.worker.worker_core import WorkerCore


def with_a_message_under_way(progress: SpreadName) -> LocalJob:
    """Return a job of closed inputs and two workers; a message from one to the other is all that there is."""
    flow = tw.Dataflow("exchanging")
    flow.input("numbers").exchange(lambda number: 0).unary(reading(lambda _: True), name="pass").probe("done").capture(
        "results"
    )
    job = deploy(flow, 2, progress)
    job.input("numbers").send([1])
    settle(job)
    job.input("numbers").send([2])
    job.input("numbers").close()
    job.run_round()
    assert captured(job) == [(0, [1])]
    return job


@every_spread
def test_a_message_under_way_is_not_overlooked(progress: SpreadName) -> None:
    """A probe is not called complete while a record is between two workers, only to let it pass a moment later."""
    with with_a_message_under_way(progress) as job:
        assert list(job.probe("done").frontier) == [0]
        explanation = job.explain("done")
        settle(job)
        assert captured(job) == [(0, [1]), (0, [2])]
        assert list(explanation.frontier) == [0]
        assert explanation.holders[0].what.startswith("1 message at time 0 on the way to input 0 of 'exchange'")
        job.stop()


@every_spread
def test_an_operator_has_not_ended_while_a_message_to_it_is_under_way(progress: SpreadName) -> None:
    """The frontier of an operator in the statistics is a lower bound on what it still gets."""
    with with_a_message_under_way(progress) as job:
        assert [one.frontier for one in job.statistics().operators.values()] == [(), (0,), (0,), (0,)]
        job.stop()


def test_a_token_that_another_thread_has_just_discarded_is_not_named() -> None:
    """Whoever has heard of a leak and discards the token does not hear of it again."""
    kept: list[tw.TimestampToken] = []
    with deploy(flow_of(hoarding(kept), "leaky"), 1) as job:
        job.input("numbers").send([1])
        job.input("numbers").close()
        settle(job)
        assert [holder.operator for holder in job.explain("done").holders] == ["leaky"]
        kept.pop().discard()
        assert job.explain("done").holders == ()
        job.stop()


def spreading_work(context: tw.OperatorContext) -> Schedule:
    """Build an operator that sends one record a step, and asks to be scheduled again while there are more."""
    work: list[tuple[tw.TimestampToken, int]] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            work.extend((lent.retain(), record) for record in batch)
        if work:
            token, record = work.pop(0)
            with token:
                output.send(token, [record])
            context.activate()

    return schedule


def test_a_token_of_an_operator_that_is_scheduled_is_not_called_leaked() -> None:
    """An operator that works off its records over many steps runs in the next one: nothing has leaked."""
    with deploy(flow_of(spreading_work, "slow"), 1) as job:
        job.input("numbers").send(list(range(50)))
        job.input("numbers").close()
        for _ in range(5):
            job.run_round()
        [holder] = job.explain("done").holders
        assert (holder.operator, holder.time) == ("slow", 0)
        assert "leaked" not in holder.advice
        job.wait(DEADLINE_S)
        assert [record for _, batch in captured(job) for record in batch] == list(range(50))


def keeping_its_initial_token(context: tw.OperatorContext) -> Schedule:
    token = context.token()

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        assert token.is_live
        for _ in input:
            pass

    return schedule


@pytest.mark.parametrize("advance", [None, 1])
def test_inputs_that_have_not_passed_a_time_are_not_said_to_have(advance: int | None) -> None:
    """An operator whose summaries lend it no token for time 0 may keep its initial one while its input is at 0."""
    flow = tw.Dataflow("diagnostics")
    numbers = flow.input("numbers")
    summaries = {} if advance is None else {(0, 0): tw.progress.PathSummary.advance(numbers.nesting, advance)}
    (made,) = flow.operator([numbers], 1, keeping_its_initial_token, summaries=summaries, name="keeper")
    made.probe("done")
    with deploy(flow, 1) as job:
        settle(job)
        entrance, holder = job.explain("done").holders
        assert (holder.operator, holder.time) == ("keeper", 0)
        assert "have passed that time" not in holder.what
        assert "'keeper' runs again when its input 0 passes 0" in holder.advice
        assert (entrance.operator, entrance.port) == ("input numbers", "input 0 of 'keeper'")
        job.stop()


# ---------------------------------------------------------------------- workers that do not answer


def halting(kept: list[tw.TimestampToken]) -> tw.Dataflow:
    flow = tw.Dataflow("halting")
    flow.input("numbers").exchange(lambda n: n).unary(hoarding(kept), name="halt").probe("done").capture("results")
    return flow


def explained(job: LocalJob, busy: Callable[[WorkerCore], bool]) -> Explanation:
    """Explain the probe as if some workers were inside an operator."""
    compiled = CompiledGraph(job.plan.graph())
    answers = [BusyWorker(core.worker, "halt", 0, 2.5) if busy(core) else core.report() for core in job._cores]
    view = JobView(job.plan, compiled, answers)
    return Explainer(view, job._feed).explain("done")


@every_spread
@pytest.mark.parametrize("busy", [0, 1, 2])
def test_a_busy_worker_is_named_and_the_others_explain_the_rest(busy: int, progress: SpreadName) -> None:
    """With operator, time and for how long; the frontier is at most what can still arrive."""
    kept: list[tw.TimestampToken] = []
    with deploy(halting(kept), 3, progress) as job:
        for number in range(6):
            job.input("numbers").send([number])
        job.input("numbers").advance_to(4)
        settle(job)
        explanation = explained(job, lambda core: core.worker == busy)
        assert list(explanation.frontier) == [0]
        assert explanation.busy == (BusyWorker(busy, "halt", 0, 2.5),)
        lines = str(explanation).splitlines()
        assert lines[0] == "'done' waits: times from 0 on can still arrive there"
        assert lines[1] == (
            f"worker {busy} did not answer: it has been in operator 'halt' at time 0 for 2.5 s, "
            "and nothing else runs there meanwhile"
        )
        holder = explanation.holders[0]
        assert (holder.operator, holder.time) == ("halt", 0)
        assert busy not in holder.workers
        kept.clear()
        job.stop()


def test_nothing_is_called_complete_when_no_worker_answers() -> None:
    """A job of one worker whose operator does not return is the likeliest case: its frontier is not empty."""
    kept: list[tw.TimestampToken] = []
    with deploy(halting(kept), 1) as job:
        job.input("numbers").send([1])
        settle(job)
        explanation = explained(job, lambda core: True)
        assert len(explanation.frontier) > 0
        assert "times from  on" not in str(explanation)
        job.stop()


def test_a_worker_of_which_nothing_is_known_is_said_not_to_answer() -> None:
    """It may be on its way to die, or building its operators."""
    with deploy(halting([]), 2) as job:
        compiled = CompiledGraph(job.plan.graph())
        view = JobView(job.plan, compiled, [job._cores[0].report(), BusyWorker(1)])
        text = str(Explainer(view, job._feed).explain("done"))
        assert "worker 1 did not answer\n" in text
        last = str(view.statistics()).splitlines()[-1]
        assert " ".join(last.split()) == "1 busy in an operator, did not answer"
        assert view.statistics().silent == (1,)
        job.stop()


@every_spread
def test_explanations_in_the_middle_never_hide_what_is_held(progress: SpreadName) -> None:
    """After any number of rounds, a token that is really held holds the frontier in the explanation, too."""
    kept: list[tw.TimestampToken] = []
    with deploy(halting(kept), 3, progress) as job:
        for number in range(9):
            job.input("numbers").send([number])
            job.input("numbers").advance_to(number)
        job.input("numbers").close()
        while job.run_round():
            frontier = job.explain("done").frontier
            assert all(frontier.less_equal(token.time) for token in kept)
            if len(kept) > 4:
                kept.pop(0).discard()
        while kept:
            kept.pop().discard()
        job.wait(DEADLINE_S)
