"""A send by a thread or a coroutine of an operator: the job fails, though perhaps only a future has the TokenError."""

import asyncio
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.runtime.one_operator import DEADLINE_S, captured, feed, flow_of, settle
from tests.unit.runtime.worker.test_worker_loop import command, running, watch_until
from tests.waiting import eventually
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.runtime.messages.feeder_status import Phase
from tidewheel.runtime.worker.operator_context import instance_of


def keeps(token: tw.TimestampToken, output: tw.OutputPort) -> None:
    """Send with a token of one's own, and give it up whatever happens."""
    with token:
        output.send(token, ["answer"])


def discards(token: tw.TimestampToken, output: tw.OutputPort) -> None:
    """Send with a token that was discarded."""
    token.discard()
    output.send(token, ["answer"])


def sends(lent: tw.types.LentToken, output: tw.OutputPort) -> None:
    """Send with the token of a message."""
    output.send(lent, ["answer"])


class Asking:
    """An operator whose threads send by themselves, once it has returned."""

    def __init__(self, pool: ThreadPoolExecutor, answer: Callable[..., None], *, lends: bool = False) -> None:
        self.futures: list[Future[None]] = []
        self._pool = pool
        self._answer = answer
        self._lends = lends

    def build(self, context: tw.OperatorContext) -> Schedule:
        def ask(token: Any, output: tw.OutputPort) -> None:
            assert eventually(lambda: instance_of(context).call < 0)
            self._answer(token, output)

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, _ in input:
                self.futures.append(self._pool.submit(ask, lent if self._lends else lent.retain(), output))

        return schedule

    def have_it_send(self, job: tw.types.Job) -> None:
        """Feed the operator, and return once its thread has sent."""
        feed(job, [], [1], close=False)
        settle(job)
        assert isinstance(self.futures[0].exception(DEADLINE_S), tw.errors.TokenError)
        job.input("numbers").close()


_LENT = "used the token lent by a message at time 1 after it returned"
MISUSES = [
    (keeps, False, "sent on output 0 outside its schedule function"),
    (discards, False, "used a token for time 1 after it was discarded"),
    (sends, True, _LENT),
    (lambda lent, output: lent.retain(), True, _LENT),
    (lambda lent, output: lent.delayed(5), True, _LENT),
]


@pytest.mark.parametrize(("answer", "lends", "what"), MISUSES)
def test_a_send_from_another_thread_fails_the_job(answer: Callable[..., None], lends: bool, what: str) -> None:
    """The error names operator, worker, time and remedy; without it the job would end well, without the records."""
    with ThreadPoolExecutor(1) as pool:
        asking = Asking(pool, answer, lends=lends)
        with pytest.raises(tw.JobError) as no, tw.run(flow_of(asking.build, "ask"), engine="local") as job:
            asking.have_it_send(job)
    error = no.value
    assert re.match(
        rf"operator 'ask' failed in a thread or coroutine on worker 0 at time 1: .*'ask' {what}", str(error)
    )
    assert str(error).endswith(
        "only in schedule: retain() the token, keep the answer with it, and call context.activate()"
    )
    assert (error.operator, error.worker, error.time) == ("ask", 0, 1)
    assert "self._answer(token, output)" in error.traceback_text
    assert error.__cause__ is asking.futures[0].exception()


def test_an_operator_that_raises_the_error_of_its_thread_fails_as_if_it_did_not() -> None:
    """The operator looks at the future before the worker looks at the refusal; the error has the time as well."""
    futures: list[Future[None]] = []

    def build(context: tw.OperatorContext) -> Schedule:
        def ask(token: tw.TimestampToken, output: tw.OutputPort) -> None:
            assert eventually(lambda: instance_of(context).call < 0)
            keeps(token, output)

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for future in filter(Future.done, futures):
                future.result()
            for lent, _ in input:
                futures.append(pool.submit(ask, lent.retain(), output))
                futures[-1].add_done_callback(lambda _: context.activate())

        return schedule

    said = "'ask' failed in a thread or coroutine on worker 0 at time 0: TokenError"

    def ask_and_wait(job: tw.types.Job) -> None:
        assert isinstance(job, LocalJob)
        feed(job, [1])
        job.run_round()
        assert isinstance(futures[0].exception(DEADLINE_S), tw.errors.TokenError)
        job.wait(DEADLINE_S)

    with ThreadPoolExecutor(1) as pool, pytest.raises(tw.JobError, match=said):  # noqa: SIM117 - of one statement
        with tw.run(flow_of(build, "ask"), engine="local") as job:
            ask_and_wait(job)


def test_a_sleeping_worker_wakes_up_to_fail_for_a_coroutine() -> None:
    """On the thread of an engine the same: a task of an event loop sends, and no code looks at the task."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def build(context: tw.OperatorContext) -> Schedule:
        async def ask(token: tw.TimestampToken, output: tw.OutputPort) -> None:
            await asyncio.to_thread(eventually, lambda: instance_of(context).call < 0)
            output.send(token, ["answer"])

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, _ in input:
                asyncio.run_coroutine_threadsafe(ask(lent.retain(), output), loop)

        return schedule

    try:
        with running(flow_of(build)) as worker:
            command(worker, 0, "send", 0, [3])
            command(worker, 1, "close")
            status = watch_until(worker, lambda status: status.phase is Phase.FAILED)
            assert isinstance(status.failure, tw.JobError)
            assert (status.failure.operator, status.failure.time) == ("subject", 0)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(DEADLINE_S)
        loop.close()


def test_what_an_operator_catches_in_its_call_fails_nothing() -> None:
    """In schedule the error reaches the operator itself, which may go on."""
    kept: list[tw.types.LentToken] = []

    def build(context: tw.OperatorContext) -> Schedule:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                kept.append(lent)
                if len(kept) > 1:
                    with pytest.raises(tw.errors.TokenError):
                        kept[0].retain()
                output.send(lent, batch)

        return schedule

    with tw.run(flow_of(build), engine="local") as job:
        job.input("numbers").send([1])
        job.input("numbers").advance_to(1)
        job.probe("done").wait_until(1)
        job.input("numbers").send([2])
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        assert captured(job) == [(0, [1]), (1, [2])]
