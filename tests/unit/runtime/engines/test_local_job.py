"""The local engine, and what every job answers."""

import threading
from collections import Counter
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.busy_flow import busy_flow, collected, plain_counts
from tests.kit.runtime.one_operator import captured, feed, flow_of, ignore, scheduled, settle
from tests.laws.strategies import law_settings
from tidewheel.host.sigterm import Terminated
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.engines import local_job
from tidewheel.runtime.engines.local_job import LocalJob

DEADLINE_S = 30.0


def named_flow() -> tw.Dataflow:
    flow = tw.Dataflow("named")
    flow.input("a").capture("b").probe("c").publish("local job/d")
    flow.input("e").capture("f").probe("g")
    return flow


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda job: job.input("x"), r"dataflow 'named' has no input 'x'; it has \['a', 'e'\]"),
        (lambda job: job.captured("x"), r"dataflow 'named' has no capture 'x'; it has \['b', 'f'\]"),
        (lambda job: job.probe("x"), r"dataflow 'named' has no probe 'x'; it has \['c', 'g'\]"),
        (lambda job: job.topic("x"), r"dataflow 'named' has no topic 'x'; it has \['local job/d'\]"),
    ],
)
def test_an_unknown_name_lists_those_that_there_are(ask: Any, message: str) -> None:
    """A typing error is found at once."""
    with tw.run(named_flow(), engine="local") as job:
        with pytest.raises(tw.JobError, match=message):
            ask(job)
        job.stop()


def test_a_dataflow_without_names_says_so() -> None:
    """There is nothing to list then."""
    job = tw.run(tw.Dataflow("empty"), engine="local")
    with job, raises(tw.JobError):
        job.input("x")


def test_an_empty_dataflow_is_complete_at_once() -> None:
    """There is nothing to wait for."""
    with tw.run(tw.Dataflow("empty"), workers=3, engine="local") as job:
        job.wait()
        assert job.is_complete


# ---------------------------------------------------------------------- stopping


@pytest.mark.parametrize(
    "use",
    [
        lambda job: job.wait(),
        lambda job: job.probe("done").wait_until(1),
        lambda job: job.captured("results"),
        lambda job: job.input("numbers").send([1]),
        lambda job: job.input("numbers").advance_to(1),
        lambda job: job.input("numbers").close(),
        lambda job: job.run_round(),
    ],
)
@pytest.mark.parametrize("completed", [True, False])
def test_a_stopped_job_is_of_no_use(use: Any, completed: bool) -> None:
    """The error says where to use it."""
    flow = flow_of(scheduled(ignore))
    flow.input("more")
    with tw.run(flow, engine="local") as job:
        job.input("more").close()
        if completed:
            settle(job)
        job.stop()
    with raises(tw.JobError):
        use(job)


def test_stopping_again_does_nothing() -> None:
    """Also after the block."""
    with tw.run(flow_of(scheduled(ignore)), engine="local") as job:
        feed(job)
        job.wait()
        job.stop()
        job.stop()
    job.stop()


def test_an_error_in_the_block_stops_the_job() -> None:
    """It goes on to whoever is outside, and the job with its topics is over."""
    job = tw.run(named_flow(), engine="local")
    subscription = tw.subscribe("local job/d")
    with pytest.raises(LookupError, match="mine"), job:
        raise LookupError("mine")
    with raises(tw.JobError):
        job.wait()
    with raises(tw.DeliveryError):
        list(subscription.epochs())


# ---------------------------------------------------------------------- determinism


@law_settings(20)
@given(st.lists(st.lists(st.integers(0, 40), max_size=5), max_size=4), st.integers(1, 3))
def test_the_same_run_every_time(epochs: list[list[int]], workers: int) -> None:
    """What is captured, in which order and by which worker, is the same in each run, and what plain Python says."""
    runs = []
    for _ in range(2):
        with tw.run(busy_flow(), workers=workers, engine="local") as job:
            feed(job, *epochs)
            job.wait()
            runs.append(captured(job, "counts"))
    assert runs[0] == runs[1]
    assert collected(runs[0]) == plain_counts(epochs)


def test_operators_are_called_in_the_same_order_every_time() -> None:
    """Each step of each worker comes in turn, so side effects come in the same order too."""

    def trace() -> list[Any]:
        calls: list[Any] = []

        def noting(name: str) -> Any:
            def build(context: tw.OperatorContext) -> Schedule:
                def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
                    for lent, batch in input:
                        calls.append((name, context.worker, lent.time, tuple(batch)))
                        output.send(lent, batch)

                return schedule

            return build

        flow = tw.Dataflow("test")
        first = flow.input("numbers").unary(noting("first"), exchange=lambda number: number, name="first")
        first.map(str).unary(noting("second"), exchange=lambda text: text, name="second")
        with tw.run(flow, workers=3, engine="local") as job:
            feed(job, [1, 2, 3], [4, 5], [6, 7, 8, 9])
            job.wait()
        return calls

    assert trace() == trace()


# ---------------------------------------------------------------------- two threads


def test_one_thread_may_feed_while_another_runs_the_job() -> None:
    """Nothing is lost or counted twice; each epoch is complete when the probe says so, seen from either thread."""
    epochs = [[3 * epoch, 3 * epoch + 1, 3 * epoch + 2] for epoch in range(40)]
    with tw.run(busy_flow(), workers=2, engine="local") as job:
        assert isinstance(job, LocalJob)
        fed = threading.Event()
        errors: list[BaseException] = []

        def run() -> None:
            try:
                while not fed.is_set():
                    job.run_round()
                    frontier = list(job.probe("done").frontier)
                    complete = {time for time, _ in captured(job, "counts")}
                    assert not frontier or complete.issuperset(range(frontier[0]))
                job.wait(DEADLINE_S)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the test fails with it
                errors.append(error)

        runner = threading.Thread(target=run)
        runner.start()
        feed(job, *epochs)
        fed.set()
        runner.join(DEADLINE_S)
        assert not runner.is_alive()
        assert errors == []
        assert collected(captured(job, "counts")) == plain_counts(epochs)


def test_two_threads_may_wait_at_once() -> None:
    """Each runs the job when it is its turn, and both return when it has ended."""
    with tw.run(busy_flow(), workers=2, engine="local") as job:
        feed(job, *[[number] for number in range(30)])
        waiters = [threading.Thread(target=job.wait, args=(DEADLINE_S,)) for _ in range(3)]
        for waiter in waiters:
            waiter.start()
        for waiter in waiters:
            waiter.join(DEADLINE_S)
        assert job.is_complete
        assert collected(captured(job, "counts")) == plain_counts([[number] for number in range(30)])


def test_who_waits_is_told_that_there_is_nothing_to_do_and_may_wait_again() -> None:
    """A thread that waits while another has not fed yet gets an error at once, and can just try again."""
    with tw.run(flow_of(scheduled(ignore)), engine="local") as job:
        with raises(tw.JobError):
            job.probe("done").wait_until(1)
        feeder = threading.Thread(target=lambda: job.input("numbers").advance_to(1))
        feeder.start()
        feeder.join(DEADLINE_S)
        job.probe("done").wait_until(1)
        job.stop()


def test_an_operator_may_feed_an_input_of_its_own_job() -> None:
    """A command given from within a step is taken in the next round."""
    flow = tw.Dataflow("test")
    jobs: list[tw.types.Job] = []

    def again(number: int) -> int:
        if number:
            jobs[0].input("numbers").send([number - 1])
        else:
            jobs[0].input("numbers").close()
        return number

    flow.input("numbers").map(again).capture("results")
    with tw.run(flow, workers=2, engine="local") as job:
        jobs.append(job)
        job.input("numbers").send([4])
        job.wait()
        assert Counter(number for _, batch in captured(job) for number in batch) == Counter(range(5))


def test_an_operator_and_a_thread_may_feed_the_same_input() -> None:
    """Neither waits for the other for ever."""
    sending = threading.Event()

    def send() -> None:
        sending.set()
        job.input("numbers").send([1])

    flow = tw.Dataflow("test")
    job: tw.types.Job

    def meet(number: int) -> int:
        if number == 0:
            other = threading.Thread(target=send, daemon=True)
            other.start()
            assert sending.wait(DEADLINE_S)
            job.input("numbers").send([2])
        return number

    flow.input("numbers").map(meet).probe("done").capture("results")
    job = tw.run(flow, engine="local")
    job.input("numbers").send([0])
    runner = threading.Thread(target=settle, args=(job,), daemon=True)
    runner.start()
    runner.join(0.5)
    assert not runner.is_alive()


# ---------------------------------------------------------------------- operators that use their own job


def test_an_operator_cannot_wait_for_its_own_job() -> None:
    """It would run other operators in the middle of its step, whose changes are indivisible: that is refused."""
    jobs: list[tw.types.Job] = []
    flow = tw.Dataflow("waiting")
    flow.input("numbers").inspect(lambda _: jobs[0].probe("done").wait_until(1)).probe("done")
    job = tw.run(flow, engine="local")
    jobs.append(job)
    job.input("numbers").send([1])
    job.input("numbers").close()
    with raises(tw.JobError):
        job.wait()
    job.stop()


def test_an_operator_may_look_at_its_own_job() -> None:
    """Frontiers are those of before the step; its own worker cannot report, and is said to be in that operator."""
    jobs: list[tw.types.Job] = []
    seen: list[Any] = []

    def look(_: int) -> None:
        [job] = jobs
        explanation = job.explain("done")
        seen.append((list(job.probe("done").frontier), [(busy.worker, busy.operator) for busy in explanation.busy]))
        seen.append((job.statistics().silent, len(job.statistics().workers)))

    flow = tw.Dataflow("looking")
    flow.input("numbers").inspect(look).probe("done")
    with tw.run(flow, engine="local", workers=2) as job:
        jobs.append(job)
        job.input("numbers").send([1])
        job.input("numbers").close()
        job.wait()
    assert seen == [([0], [(0, "inspect")]), ((0,), 1)]


@pytest.mark.parametrize("is_stage", [True, False])
def test_sigterm_ends_the_program_also_in_the_middle_of_an_operator(is_stage: bool) -> None:
    """It is no JobError, which the program might handle and go on."""

    def end(number: int) -> int:
        raise Terminated(143)

    flow = tw.Dataflow("ended")
    numbers = flow.input("numbers", int)
    (numbers.map(end) if is_stage else numbers.inspect(end).exchange(end)).capture("none")

    def run() -> None:
        with tw.run(flow, engine="local") as job:
            job.input("numbers").send([1])
            job.wait(timeout_s=10.0)

    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 143


def test_a_question_during_a_round_is_answered_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock alone would let it wait: the thread that runs rounds takes it again at once."""
    waits = threading.Event()
    answers: list[int] = []

    class Awaited(Future[Any]):
        def result(self, timeout_s: float | None = None) -> Any:
            waits.set()
            return super().result(timeout_s)

    monkeypatch.setattr(local_job, "Future", Awaited)
    monkeypatch.setattr(local_job, "_SOON_S", 0.0)

    def be_asked(number: int) -> int:
        looking.start()
        assert waits.wait(DEADLINE_S)
        return number

    flow = tw.Dataflow("asked")
    flow.input("numbers").map(be_asked).probe("done")
    with tw.run(flow, workers=2, engine="local") as job:
        assert isinstance(job, LocalJob)
        looking = threading.Thread(target=lambda: answers.append(len(job._look(5.0)[1])))
        job.input("numbers").send([1])
        job.input("numbers").close()
        job.wait()
        looking.join(DEADLINE_S)
    assert answers == [2]


def test_few_questions_wait_for_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator may run for hours, and be looked at each second."""
    monkeypatch.setattr(local_job, "_SOON_S", 0.0)
    rounds, runs, ends = local_job.LocalRounds(), threading.Event(), threading.Event()

    def run() -> None:
        with rounds.lock:
            runs.set()
            assert ends.wait(DEADLINE_S)

    running = threading.Thread(target=run)
    running.start()
    assert runs.wait(DEADLINE_S)
    assert [rounds.between(lambda: 1, 0.0) for _ in range(30)] == [None] * 30
    assert len(rounds._asked) < 30
    ends.set()
    running.join(DEADLINE_S)
    assert rounds.between(lambda: 1, 0.0) == 1


def test_a_limit_holds_while_another_thread_runs_the_job() -> None:
    """A thread that sends without waiting is told that there is no room, and does not wait for the round to end."""
    is_in, may_go_on = threading.Event(), threading.Event()

    def block(number: int) -> int:
        is_in.set()
        assert may_go_on.wait(DEADLINE_S)
        return number

    flow = tw.Dataflow("limited")
    flow.input("numbers").map(block).capture("numbers")
    with tw.run(flow, workers=2, engine="local", config=tw.RuntimeConfig(bytes_in_flight=1000)) as job:
        numbers = job.input("numbers")
        numbers.send([1], worker=0)
        numbers.send(list(range(1000)), worker=1)
        running = threading.Thread(target=job.run_round)  # type: ignore[attr-defined]
        running.start()
        try:
            assert is_in.wait(DEADLINE_S)
            with raises(tw.errors.WouldBlock):
                numbers.send([2], worker=1, timeout_s=0)
        finally:
            may_go_on.set()
            running.join()
        numbers.close()
    assert sum(len(one.batch) for one in job.captured("numbers")) == 1001
