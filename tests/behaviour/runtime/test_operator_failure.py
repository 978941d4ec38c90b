"""A failing operator fails the job: what the error says, and what happens afterwards."""

import pickle
import re
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import ignore_others
from tests.kit.runtime.one_operator import captured, fail_flow, feed, scheduled
from tidewheel.runtime.description.plan import Schedule


class BadRecordError(ValueError):
    """An error of the user's own."""


def refuse_three(number: int) -> int:
    if number == 3:
        raise BadRecordError(f"no {number}, please")
    return number


def refusing_flow() -> tw.Dataflow:
    flow = tw.Dataflow("test")
    flow.input("numbers").map(refuse_three).probe("done").capture("results")
    return flow


OPERATORS: dict[str, Callable[[tw.Stream[int]], tw.Stream[Any]]] = {
    "map": lambda stream: stream.map(refuse_three),
    "flat_map": lambda stream: stream.flat_map(lambda number: [refuse_three(number)]),
    "filter": lambda stream: stream.filter(refuse_three),
    "map_batches": lambda stream: stream.map_batches(lambda batch: [refuse_three(number) for number in batch]),
    "inspect": lambda stream: stream.inspect(refuse_three),
    "iterate/map": lambda stream: stream.iterate(
        lambda inner: (inner.filter(lambda _: False), inner.map(refuse_three))
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("worker", [0, 1])
def test_the_error_says_which_operator_where_and_when(name: str, worker: int) -> None:
    """Operator, worker and time as fields and in words, with the user's own exception and its traceback."""
    flow = tw.Dataflow("test")
    OPERATORS[name](flow.input("numbers")).capture("results")
    epochs = [[1], [2], [], [], [3]] if worker == 0 else [[1], [], [], [], [3]]
    error = fail_flow(flow, *epochs, workers=2)
    time = (4, 0) if "/" in name else 4
    assert (error.operator, error.worker, error.time) == (name, worker, time)
    assert isinstance(error.__cause__, BadRecordError)
    headline = str(error).splitlines()[0]
    assert headline.startswith(f"operator {name!r} failed on worker {worker} at time {time!r}: ")
    assert headline.endswith("BadRecordError: no 3, please")
    assert "".join(traceback.format_exception(error)).count("in refuse_three") == 1
    assert "in refuse_three" in error.traceback_text
    assert 'raise BadRecordError(f"no {number}, please")' in error.traceback_text


class SilentError(ValueError):
    """An error that says nothing of its own."""


def fail_silently(record: object) -> Any:
    raise SilentError


@pytest.mark.parametrize(
    "describe",
    [
        lambda stream: stream.map(fail_silently),
        lambda stream: stream.flat_map(fail_silently),
        lambda stream: stream.filter(fail_silently),
        lambda stream: stream.inspect(fail_silently),
        lambda stream: stream.branch(fail_silently).rest,
        pytest.param(
            lambda stream: stream.delay(lambda record, time: fail_silently(record)),
            marks=pytest.mark.skipif(sys.version_info >= (3, 12), reason="it is lost if there are two arguments"),
        ),
        lambda stream: stream.stateful_map(abs, start=int, step=lambda state, record: fail_silently(record)),
        lambda stream: stream.aggregate(lambda _: 0, start=int, add=lambda total, number: fail_silently(number)),
        lambda stream: stream.accumulate(lambda _: 0, start=int, add=lambda total, number: fail_silently(number)),
    ],
    ids=["map", "flat_map", "filter", "inspect", "branch", "delay", "stateful_map", "aggregate", "accumulate"],
)
def test_the_error_shows_the_record(describe: Callable[[tw.Stream[int]], tw.Stream[Any]]) -> None:
    """Where an operator called a function with it; once, if the exception does not say it."""
    flow = tw.Dataflow("test")
    describe(flow.input("numbers", int)).capture("results")
    ignore_others(flow)
    headline = str(fail_flow(flow, [1234567])).splitlines()[0]
    assert headline.count("1234567") == 1


@pytest.mark.parametrize("name", ["map", "flat_map", "filter", "inspect", "accumulate"])
def test_the_error_shows_a_record_that_is_none(name: str) -> None:
    """Though most errors speak of a NoneType; of two records it is the one that failed."""
    flow = tw.Dataflow("test")
    stream = flow.input("numbers")
    if name == "accumulate":
        stream.accumulate(lambda _: 0, start=int, add=lambda total, line: total + len(line)).capture("results")
    else:
        getattr(stream, name)(lambda line: [len(line)]).capture("results")
    batch: Any = ["to be", None]
    headline = str(fail_flow(flow, batch)).splitlines()[0]
    assert headline.startswith(f"operator {name!r} failed on worker 0 at time 0: TypeError: object of type 'NoneType'")
    assert headline.endswith("has no len() (record None)")


def test_the_error_of_a_token_block_has_its_time() -> None:
    """An answer of a thread is often read there, in a call that has received no message."""

    def build(context: tw.OperatorContext) -> Schedule:
        tokens: list[tw.TimestampToken] = []

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            if tokens:
                with tokens.pop():
                    raise SilentError
            tokens.extend(lent.retain() for lent, _ in input)
            context.activate()

        return schedule

    flow = tw.Dataflow("test")
    flow.input("numbers").unary(build, name="ask").capture("results")
    assert fail_flow(flow, [], [1]).time == 1


def fail_after_a_change(number: int) -> Any:
    number += 1
    fail_silently(number)


def fail_to_add(total: int, number: int) -> int:
    if number == 7:
        raise SilentError
    return total + number


@pytest.mark.parametrize(
    ("describe", "shown"),
    [
        (lambda stream: stream.map(fail_after_a_change), {"(record 0)"}),
        (lambda stream: stream.map(partial(fail_to_add, 3)), {"(record 7)"}),
        (lambda stream: stream.inspect_batches(lambda time, batch: fail_silently(batch)), set()),
    ],
    ids=["changed", "partial", "time"],
)
def test_the_error_shows_no_other_record(describe: Callable[[tw.Stream[int]], Any], shown: set[str]) -> None:
    """Not what else a function is given, or makes of it; from Python 3.12 on, rather nothing."""
    flow = tw.Dataflow("test")
    describe(flow.input("numbers", int))
    headline = str(fail_flow(flow, [0, 1, 3, 7, 1234567, 1234568])).splitlines()[0]
    assert set(re.findall(r"\(record .*\)", headline)) in ([shown] if sys.version_info < (3, 12) else [shown, set()])


def test_an_error_does_not_convert_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large table that would take longer, and more memory, than what has failed."""
    flow = tw.Dataflow("test")
    flow.input("numbers").map_batches(fail_silently)
    monkeypatch.setattr("tidewheel.batches.batches.records", fail_silently)
    assert "SilentError" in str(fail_flow(flow, pa.table({"n": [1234567]})))


def test_a_record_that_cannot_be_shown_is_left_out() -> None:
    """An exception in its ``__repr__`` does not hide the one that matters."""

    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError("cannot say")

    flow = tw.Dataflow("test")
    flow.input("numbers", int).map(lambda _: Bad()).map(fail_silently)
    assert "SilentError" in str(fail_flow(flow, [1]))


def test_an_error_outside_any_message_has_no_time() -> None:
    """An operator that fails while it looks at its frontier is named without one."""

    def build(context: tw.OperatorContext) -> Schedule:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            raise BadRecordError("nothing came")

        return schedule

    flow = tw.Dataflow("test")
    flow.input("numbers").unary(build, name="subject")
    error = fail_flow(flow)
    assert (error.operator, error.worker, error.time) == ("subject", 0, None)
    assert re.match(r"operator 'subject' failed on worker 0: .*BadRecordError: nothing came$", str(error))


def test_an_error_after_all_messages_has_no_time_of_an_earlier_call() -> None:
    """The time is that of a message of the call that failed."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            output.send(lent, batch)
        if not input.frontier.less_equal(5):
            raise BadRecordError("too late")

    flow = tw.Dataflow("test")
    flow.input("numbers").unary(scheduled(schedule), name="subject").probe("done").capture("results")
    job = tw.run(flow, engine="local")
    job.input("numbers").send([1])
    job.input("numbers").advance_to(4)
    job.probe("done").wait_until(4)
    job.input("numbers").close()
    with raises(tw.JobError) as caught:
        job.wait()
    assert caught.value.time is None


@pytest.mark.parametrize(
    "raised",
    [StopIteration, RuntimeError, KeyError, TimeoutError, SystemExit, GeneratorExit, tw.errors.TokenError, tw.JobError],
)
def test_whatever_is_raised_is_a_job_error(raised: type[BaseException]) -> None:
    """Also exceptions that mean something to Python, or to the runtime itself."""

    def fail(_: int) -> int:
        raise raised("from the user")

    flow = tw.Dataflow("test")
    flow.input("numbers").map(fail)
    error = fail_flow(flow, [1])
    assert (type(error), error.operator) == (tw.JobError, "map")
    assert isinstance(error.__cause__, raised)


@pytest.mark.parametrize("returned", [[1], 0, "text"])
def test_a_schedule_returns_nothing(returned: Any) -> None:
    """Who returns records instead of sending them is told so: they would be lost."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> Any:
        return returned

    flow = tw.Dataflow("test")
    flow.input("numbers").unary(scheduled(schedule), name="subject")
    error = fail_flow(flow, [1])
    assert error.operator == "subject"
    assert f"TypeError: schedule returned {returned!r}: it sends with output.send(token, batch)" in str(error)


def test_a_schedule_is_no_generator() -> None:
    """One with a yield in it would never run."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> Any:
        for lent, batch in input:
            output.send(lent, batch)
            yield batch

    flow = tw.Dataflow("test")
    flow.input("numbers").unary(scheduled(schedule), name="subject")
    assert "a function with yield in it does not even run" in str(fail_flow(flow, [1]))


def test_a_schedule_is_not_async() -> None:
    """The error says what awaits, not what a function with yield does."""

    async def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            output.send(lent, batch)

    flow = tw.Dataflow("test")
    flow.input("numbers").unary(scheduled(cast(Any, schedule)), name="subject")
    error = fail_flow(flow, [1])
    assert "'subject' could not be built on worker 0: TypeError: schedule is async, and the worker" in str(error)
    assert "map_async awaits a coroutine for each record" in str(error)


def failed_job() -> tuple[tw.types.Job, tw.JobError]:
    """Return a job that has failed, and its error."""
    job = tw.run(refusing_flow(), engine="local")
    job.input("numbers").send([3])
    with pytest.raises(tw.JobError) as caught:
        job.probe("done").wait_until(1)
    return job, caught.value


@pytest.mark.parametrize(
    "use",
    [
        lambda job: job.wait(),
        lambda job: job.wait(timeout_s=0),
        lambda job: job.probe("done").wait_until(1),
        lambda job: job.probe("done").wait_until(0),
        lambda job: job.captured("results"),
        lambda job: job.input("numbers").send([1]),
        lambda job: job.input("numbers").advance_to(5),
        lambda job: job.input("numbers").close(),
        lambda job: job.run_round(),
        lambda job: job.__exit__(None, None, None),
    ],
)
def test_after_a_failure_every_call_raises_it_again(use: Any) -> None:
    """Whoever asks later, or in another thread, hears the same and never waits."""
    job, error = failed_job()
    with pytest.raises(tw.JobError) as caught:
        use(job)
    assert caught.value is error
    job.stop()


@pytest.mark.parametrize("use", [lambda job: job.probe("done").frontier, lambda job: job.start()])
def test_after_a_failure_these_raise_too(use: Any) -> None:
    """A frontier that will never move again is not shown as if it could."""
    job, _ = failed_job()
    with raises(tw.JobError):
        use(job)


def test_a_failed_job_is_not_complete() -> None:
    """Stopping it is fine, once and again."""
    job, _ = failed_job()
    assert not job.is_complete
    job.stop()
    job.stop()


def test_what_the_block_raises_goes_before_the_jobs_failure() -> None:
    """An error of the driver's own is not hidden behind that of the job."""
    job, _ = failed_job()
    with pytest.raises(LookupError, match="mine"), job:
        raise LookupError("mine")


def test_a_failure_that_nobody_waited_for_is_raised_at_the_end_of_the_block() -> None:
    """A driver that never asked does not take a failed job for a good one."""
    job, error = failed_job()
    with pytest.raises(tw.JobError) as caught, job:
        pass
    assert caught.value is error


def test_an_error_can_be_pickled() -> None:
    """It crosses from a worker to the driver with all its fields."""
    _, error = failed_job()
    arrived = pickle.loads(pickle.dumps(error))
    assert str(arrived) == f"{error}\n\n{error.traceback_text}", "there is no cause to be printed with it"
    for field in ("operator", "worker", "time", "traceback_text"):
        assert getattr(arrived, field) == getattr(error, field)
    assert (arrived.operator, arrived.worker, arrived.time) == ("map", 0, 0)
    assert str(pickle.loads(pickle.dumps(tw.errors.TokenError("text")))) == "text"


def test_a_key_that_raises_is_the_fault_of_who_asked_for_it() -> None:
    """An exchange by a function that raises names the exchanging operator, not the innocent one before it."""
    flow = tw.Dataflow("test")
    flow.input("numbers").map(abs).exchange(refuse_three).capture("results")
    assert fail_flow(flow, [3], workers=2).operator == "exchange"


def test_a_key_that_raises_does_so_on_any_number_of_workers() -> None:
    """What works on one worker works on two: a wrong key is found while trying things out."""
    flow = tw.Dataflow("test")
    flow.input("numbers").exchange(refuse_three).capture("results")
    fail_flow(flow, [3], workers=1)


@pytest.mark.parametrize("raised", [KeyboardInterrupt])
def test_an_interrupted_job_does_not_go_on_as_if_nothing_was_lost(raised: type[BaseException]) -> None:
    """Ctrl-C in a notebook, in the midst of an operator: afterwards the job has failed, or has all its results."""
    interrupts = [raised]

    def interrupted_once(number: int) -> int:
        if interrupts:
            raise interrupts.pop()
        return number

    flow = tw.Dataflow("test")
    flow.input("numbers").map(interrupted_once).capture("results")
    job = tw.run(flow, engine="local")
    feed(job, [1, 2])
    with pytest.raises(raised):
        job.wait()
    try:
        job.wait()
    except tw.JobError:
        return
    assert captured(job) == [(0, [1, 2])]
