"""Tokens held across `await`: by coroutines on a thread of their own, which send when they are done, at their time."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.runtime.one_operator import DEADLINE_S, captured, feed, flow_of, settle
from tests.kit.runtime.stuck_flows import deploy, every_spread
from tests.unit.runtime.worker.test_worker_loop import command, running, watch_until
from tests.waiting import eventually
from tidewheel.progress import SpreadName
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.messages.feeder_status import Phase


class Background:
    """An event loop on a thread, and the events by which a test lets the coroutines on it go on."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="coroutines")
        self._gates: dict[int, asyncio.Event] = {}
        self.begun = 0

    def start(self) -> None:
        self._thread.start()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    async def reply(self, number: int) -> int:
        """Return the square of a number, as a server would that answers when it likes."""
        self.begun += 1
        await self._gate(number).wait()
        return number * number

    def _gate(self, number: int) -> asyncio.Event:
        return self._gates.setdefault(number, asyncio.Event())

    def _open(self, number: int) -> None:
        self._gate(number).set()

    def let_go(self, *numbers: int) -> None:
        for number in numbers:
            self.loop.call_soon_threadsafe(self._open, number)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(DEADLINE_S)
        self.loop.close()


@pytest.fixture
def background() -> Iterator[Background]:
    """Run an event loop for one test."""
    made = Background()
    made.start()
    yield made
    made.stop()


def asking(background: Background) -> Build:
    """Return an operator that asks for each number and sends the answer, with the token that waited for it."""

    def build(context: tw.OperatorContext) -> Schedule:
        finished: list[tuple[tw.TimestampToken, int]] = []

        async def ask(token: tw.TimestampToken, number: int) -> None:
            answer = await background.reply(number)
            finished.append((token, answer))
            context.activate()

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                for number in batch:
                    background.spawn(ask(lent.retain(), number))
            while finished:
                token, answer = finished.pop()
                with token:
                    output.send(token, [answer])

        return schedule

    return build


def within_deadline(job: tw.types.Job, condition: Callable[[], bool]) -> bool:
    """Run a local job, which would sleep otherwise, until a condition comes true."""

    def settled() -> bool:
        settle(job)
        return condition()

    return eventually(settled, DEADLINE_S)


@every_spread
@pytest.mark.parametrize("workers", [1, 3])
def test_answers_come_at_the_time_of_their_questions(
    background: Background, workers: int, progress: SpreadName
) -> None:
    """Nothing is lost, whatever the order of the answers, and the frontier waits for the last of each time."""
    with deploy(flow_of(asking(background)), workers, progress) as job:
        done = job.probe("done")
        feed(job, [1, 2], [3, 4], [5])
        assert within_deadline(job, lambda: background.begun == 5)
        assert list(done.frontier) == [0]
        background.let_go(5, 3, 4, 1)
        assert within_deadline(job, lambda: len(captured(job)) == 4)
        assert sorted(captured(job)) == [(0, [1]), (1, [9]), (1, [16]), (2, [25])]
        assert list(done.frontier) == [0]
        background.let_go(2)
        assert within_deadline(job, lambda: len(done.frontier) == 0)
        assert sorted(captured(job)) == [(0, [1]), (0, [4]), (1, [9]), (1, [16]), (2, [25])]
        job.wait(DEADLINE_S)


def test_a_time_completes_when_its_last_answer_has_come(background: Background) -> None:
    """One epoch after the other, as its answers come; a later answer alone moves nothing."""
    with deploy(flow_of(asking(background)), 1) as job:
        done = job.probe("done")
        feed(job, [1], [2], [3])
        assert within_deadline(job, lambda: background.begun == 3)
        background.let_go(2)
        assert within_deadline(job, lambda: len(captured(job)) == 1)
        assert list(done.frontier) == [0]
        background.let_go(1)
        assert within_deadline(job, lambda: list(done.frontier) == [2])
        background.let_go(3)
        assert within_deadline(job, lambda: len(done.frontier) == 0)
        job.stop()


def test_explain_names_who_waits_for_an_answer(background: Background) -> None:
    """While a coroutine has the token, the operator is what the frontier waits for."""
    with deploy(flow_of(asking(background), "asking"), 1) as job:
        feed(job, [7])
        assert within_deadline(job, lambda: background.begun == 1)
        [holder] = job.explain("done").holders
        assert (holder.operator, holder.time) == ("asking", 0)
        background.let_go(7)
        assert within_deadline(job, lambda: len(captured(job)) == 1)
        assert job.explain("done").holders == ()
        job.stop()


def test_a_sleeping_worker_wakes_up_for_an_answer(background: Background) -> None:
    """On the thread of an engine the same: `activate` from the event loop's thread has the operator send."""
    with running(flow_of(asking(background))) as loop:
        command(loop, 0, "send", 0, [3])
        command(loop, 1, "close")
        assert eventually(lambda: background.begun == 1)
        assert loop.watch().phase is Phase.RUNNING
        background.let_go(3)
        watch_until(loop, lambda status: status.phase is Phase.COMPLETE)
        assert loop.captured("results") == [(0, [9])]


def test_a_coroutine_may_take_its_token_forward(background: Background) -> None:
    """On its thread it may downgrade, clone and discard: frontiers follow, and what it keeps still sends."""

    def build(context: tw.OperatorContext) -> Schedule:
        finished: list[tw.TimestampToken] = []

        async def take_forward(token: tw.TimestampToken, number: int) -> None:
            token.downgrade(token.time + 1)
            with token:
                later = token.delayed(token.time + 2)
            await background.reply(number)
            finished.append(later)
            context.activate()

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                for number in batch:
                    background.spawn(take_forward(lent.retain(), number))
            while finished:
                with finished.pop() as token:
                    output.send(token, [token.time])

        return schedule

    with deploy(flow_of(build), 1) as job:
        done = job.probe("done")
        feed(job, [1])
        assert within_deadline(job, lambda: list(done.frontier) == [3])
        background.let_go(1)
        assert within_deadline(job, lambda: len(done.frontier) == 0)
        assert captured(job) == [(3, [3])]
        job.stop()


def test_a_coroutine_that_fails_gives_its_token_up(background: Background) -> None:
    """With the token in a block the frontier does not wait for an answer that never comes."""

    def build(context: tw.OperatorContext) -> Schedule:
        async def ask(token: tw.TimestampToken, number: int) -> None:
            with token:
                await background.reply(number)
                raise ConnectionError

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                for number in batch:
                    background.spawn(ask(lent.retain(), number))

        return schedule

    with deploy(flow_of(build), 1) as job:
        feed(job, [1])
        assert within_deadline(job, lambda: background.begun == 1)
        assert list(job.probe("done").frontier) == [0]
        background.let_go(1)
        assert within_deadline(job, lambda: len(job.probe("done").frontier) == 0)
        job.wait(DEADLINE_S)
        assert captured(job) == []
