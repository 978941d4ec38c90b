"""The map_async operator: calls of coroutines, when their results come out, and what becomes of those that fail."""

import asyncio
import pickle
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.calls import (
    Server,
    asking,
    call_threads,
    failure_of,
    job_of,
    refuse,
    run_to_end,
    within_deadline,
)
from tests.kit.operators.lazy_source import LazySource
from tests.kit.operators.operator_case import number_of
from tests.kit.runtime.one_operator import DEADLINE_S, captured, feed, settle
from tests.unit.runtime.worker.test_worker_loop import command, running, watch_until
from tests.waiting import eventually
from tidewheel.operators.records.call_forms import ListOfRecords
from tidewheel.operators.records.map_async import AsyncCalls, CallPace, CallPolicy, build_map_async
from tidewheel.runtime.messages.feeder_status import Phase
from tidewheel.runtime.worker.operator_context import instance_of


async def square(record: Any) -> int:
    """Return a square, after others had a chance to run, some sooner than others."""
    for _ in range(number_of(record) % 3):
        await asyncio.sleep(0)
    return number_of(record) ** 2


@pytest.fixture
def server() -> Iterator[Server]:
    """Make a server, and see that nobody of those who call it is left."""
    yield Server()
    assert call_threads() == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_time_completes_when_its_last_call_does(server: Server, workers: int) -> None:
    """Whatever the order of the answers; what comes later moves nothing, and nothing is lost."""
    with job_of(server.reply, [1], [2], [3, 4], workers=workers) as job:
        done = job.probe("done")
        assert within_deadline(job, lambda: len(server.begun) == 4)
        server.let_go(3, 2)
        assert within_deadline(job, lambda: len(captured(job)) == 2)
        assert list(done.frontier) == [0]
        server.let_go(1)
        assert within_deadline(job, lambda: list(done.frontier) == [2])
        server.let_go(4)
        job.wait(DEADLINE_S)
        assert sorted(captured(job)) == [(0, [1]), (1, [4]), (2, [9]), (2, [16])]


def test_results_come_as_they_are_there(server: Server) -> None:
    """Unless it is said otherwise, none waits for another."""
    with job_of(server.reply, [1, 2, 3]) as job:
        for count, number in enumerate((3, 1, 2), start=1):
            server.let_go(number)
            assert within_deadline(job, lambda: len(captured(job)) == count)  # noqa: B023 - called at once
        assert captured(job) == [(0, [9]), (0, [1]), (0, [4])]


def test_in_order_each_waits_for_those_before(server: Server) -> None:
    """Records of several messages and times leave in the order in which they came, as few batches as that allows."""
    with job_of(server.reply, [1, 2], [3], ordered=True) as job:
        assert within_deadline(job, lambda: len(server.begun) == 3)
        server.let_go(2, 3)
        server.let_go(1)
        job.wait(DEADLINE_S)
        results = captured(job)
    assert [(time, number) for time, batch in results for number in batch] == [(0, 1), (0, 4), (1, 9)]


def test_so_many_at_a_time_and_no_more(server: Server) -> None:
    """What there is no room for is not even read, so that it counts as in flight."""
    with job_of(server.reply, [1, 2, 3], [4], [5], concurrency=2) as job:
        assert within_deadline(job, lambda: len(server.begun) == 2)
        assert job.statistics().operators["map_async"].messages_in == 1
        server.let_go(1)
        assert within_deadline(job, lambda: len(server.begun) == 3)
        assert job.statistics().operators["map_async"].messages_in == 1
        server.let_go(2)
        assert within_deadline(job, lambda: len(server.begun) == 4)
        assert job.statistics().operators["map_async"].messages_in == 2
        server.let_go(3, 4, 5)
        job.wait(DEADLINE_S)
        assert server.begun == [1, 2, 3, 4, 5]


class Endless(LazySource):
    """A source that says how far it was read."""

    def __init__(self) -> None:
        self.was_read = 0

    def batches(self, partition: int) -> Iterator[tuple[int, list[int]]]:
        while self.was_read < 10_000:
            self.was_read += 1
            yield self.was_read, [self.was_read] * 100


def test_a_source_waits_for_slow_calls(server: Server) -> None:
    """However long they take: the source is not read far ahead, though nothing else is left to do."""
    source = Endless()
    flow = tw.Dataflow("test")
    flow.source("numbers", source).map_async(server.reply, concurrency=4).probe("done")
    config = tw.RuntimeConfig(bytes_in_flight=64 << 10)
    with tw.run(flow, engine="local", config=config) as job:
        assert within_deadline(job, lambda: len(server.begun) == 4)
        with pytest.raises(TimeoutError):
            job.wait(timeout_s=0.3)
        assert source.was_read < 40
        before = source.was_read
        server.let_go(*range(1, 30))
        job.probe("done").wait_until(30, DEADLINE_S)
        assert source.was_read > before
        assert within_deadline(job, lambda: 30 in server.begun)
        job.stop()
    assert 30 in server.cancelled


def test_an_input_waits_for_slow_calls(server: Server) -> None:
    """The driver's sends have to wait as well: that calls are under way is no reason to let more in."""
    flow = asking(server.reply, concurrency=4)
    with tw.run(flow, engine="local", config=tw.RuntimeConfig(bytes_in_flight=16 << 10)) as job:
        with suppress(tw.errors.WouldBlock):
            for _ in range(1000):
                job.input("numbers").send([1] * 100, timeout_s=0.3)
        assert job.statistics().inputs["numbers"].batches < 100
        job.stop()


def test_waiting_waits_for_calls() -> None:
    """On the local engine, too, for a probe, for the end, and for what is published."""
    flow = tw.Dataflow("test")
    flow.input("numbers").map_async(square).probe("done").publish("map_async/waiting")
    with tw.run(flow, engine="local", workers=2) as job, tw.subscribe("map_async/waiting") as topic:
        feed(job, [1, 2], [3])
        job.probe("done").wait_until(1, DEADLINE_S)
        epochs = [(epoch.time, sorted(epoch.records)) for epoch in topic.epochs()]
        job.wait(DEADLINE_S)
    assert epochs == [(0, [1, 4]), (1, [9])]


def test_in_a_loop() -> None:
    """Times may be (t, round), of several rounds at once."""

    def body(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        squared = numbers.map_async(square)
        return squared.filter(lambda n: n < 1000), squared.filter(lambda n: n >= 1000)

    flow = tw.Dataflow("test")
    flow.input("numbers").filter(lambda n: n > 1).iterate(body).capture("results")
    with tw.run(flow, engine="local", workers=2) as job:
        feed(job, [2, 3], [40])
        job.wait(DEADLINE_S)
        assert sorted((time, n) for time, batch in captured(job) for n in batch) == [(0, 6561), (0, 65536), (1, 1600)]


def test_explain_knows_that_it_is_at_work(server: Server) -> None:
    """Its token is held by calls, and has not leaked."""
    with job_of(server.reply, [7]) as job:
        assert within_deadline(job, lambda: len(server.begun) == 1)
        [holder] = job.explain("done").holders
        assert (holder.operator, holder.time) == ("map_async", 0)
        assert "leaked" not in str(job.explain("done"))
        server.let_go(7)
        job.wait(DEADLINE_S)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concurrency": 0}, "map_async: concurrency is a whole number, 1 or more, not 0"),
        ({"concurrency": 2.5}, r"concurrency is a whole number, 1 or more, not 2\.5"),
        ({"timeout_s": 0}, "map_async: timeout_s is a number of seconds above 0, or None, not 0"),
        ({"retry": 3}, r"map_async: retry is a tw\.Retry, such as tw\.Retry\(attempts=3\), not 3"),
        ({"per_second": 0}, "map_async: per_second is a number of attempts above 0, or None, not 0"),
        ({"per_second": float("inf")}, "per_second is a number of attempts above 0"),
        ({"batch_size": 0}, "map_async: batch_size is a whole number, 1 or more, not 0"),
        ({"retry": tw.Retry()}, "map_async: give retry attempts or within_s"),
        ({"per_second": True}, "per_second is a number of attempts above 0, or None, not True"),
    ],
)
def test_wrong_options_are_refused_at_once(options: Any, message: str) -> None:
    """When the dataflow is described."""
    with pytest.raises(tw.GraphError, match=message):
        tw.Dataflow("test").input("numbers").map_async(square, **options)
    with raises(tw.GraphError):
        tw.Dataflow("test").input("numbers").map_async(3)  # type: ignore[call-overload]


# ------------------------------------------------------------------ what calls share, and the end


class Client:
    """A connection that is opened once, and counts; what it is asked for it says with its own number."""

    opened: list["Client"]
    closed: list["Client"]

    def __init__(self, fails: str = "") -> None:
        self.fails = fails

    async def __aenter__(self) -> Any:
        if self.fails == "opening":
            raise ConnectionError("no route")
        type(self).opened.append(self)
        return self.ask if self.fails != "function" else 3

    async def __aexit__(self, *error: object) -> None:
        type(self).closed.append(self)

    async def ask(self, number: int) -> tuple[int, int]:
        assert self not in type(self).closed
        return number, type(self).opened.index(self)

    __call__ = ask


@pytest.fixture
def client() -> type[Client]:
    """Return a class of its own."""
    return type("Client", (Client,), {"opened": [], "closed": []})


def test_what_calls_share_is_opened_once_on_each_worker(client: type[Client]) -> None:
    """An asynchronous context manager is entered before the first call, and left in the end."""
    flow = asking(client())
    with tw.run(flow, engine="local", workers=2) as job:
        feed(job, [1], [2], [3], [4])
        job.wait(DEADLINE_S)
        answers = [answer for _, batch in captured(job) for answer in batch]
    assert sorted(number for number, _ in answers) == [1, 2, 3, 4]
    assert {who for _, who in answers} == {0, 1}
    assert len(client.opened) == 2
    assert set(client.closed) == set(client.opened)


def test_no_call_before_all_is_open(client: type[Client], server: Server) -> None:
    """Records that come while it is being opened wait for that."""

    class Slow(client):  # type: ignore[misc,valid-type]
        async def __aenter__(self) -> Any:
            await server.reply(0)
            return await super().__aenter__()

    flow = asking(Slow())
    with tw.run(flow, engine="local") as job:
        numbers = job.input("numbers")
        numbers.send([1])
        assert within_deadline(job, lambda: server.begun == [0])
        numbers.send([2])
        settle(job)
        server.let_go(0)
        numbers.close()
        job.wait(DEADLINE_S)
        assert sorted(answer for _, batch in captured(job) for answer in batch) == [(1, 0), (2, 0)]


@pytest.mark.parametrize(
    ("fails", "message"), [("opening", "ConnectionError: no route"), ("function", "has to give what is called")]
)
def test_what_cannot_be_opened_fails_the_job(client: type[Client], fails: str, message: str) -> None:
    """Before any call."""
    failure = failure_of(client(fails), [1])
    assert failure.operator == "map_async"
    assert message in str(failure)


def test_what_does_not_open_in_time_fails_the_job(client: type[Client], server: Server) -> None:
    """The time that a call may take is that of entering, too; it is cancelled, and the error says what it was."""

    class Silent(client):  # type: ignore[misc,valid-type]
        async def __aenter__(self) -> Any:
            return await server.reply(0)

    failure = failure_of(Silent(), [1], timeout_s=0.01)
    assert "TimeoutError: entering an object of " in str(failure)
    assert "took longer than timeout_s=0.01" in str(failure)
    assert server.cancelled == [0]


def test_it_goes_on_from_its_state() -> None:
    """Records that were read and not sent are called for again, and sent at their times, in their order."""
    pending = {7: ((0, None), 3), 8: ((2, None), 4), 9: ((0, None), 5)}

    def build(context: tw.OperatorContext) -> Any:
        instance_of(context).kept.states["pending"] = pickle.loads(pickle.dumps(pending))
        made = build_map_async(square, CallPolicy(1), ordered=True)(context)
        with context.token() as token:
            for time in (0, 2):
                instance_of(context).kept.notificators[0].notify_at(token.delayed(time))
        return made

    flow = tw.Dataflow("test")
    flow.input("numbers").unary(build, name="restored").probe("done").capture("results")
    with tw.run(flow, engine="local") as job:
        feed(job, [], [6])
        job.wait(DEADLINE_S)
        assert [(time, n) for time, batch in captured(job) for n in batch] == [(0, 9), (2, 16), (0, 25), (1, 36)]


def test_no_thread_before_the_first_call() -> None:
    """A dataflow that has nothing to call for has none."""
    with job_of(square, []) as job:
        job.wait(DEADLINE_S)
        assert call_threads() == []


def test_stopping_cancels_what_is_under_way(server: Server, client: type[Client]) -> None:
    """No thread is left, whoever still waits for an answer; what was entered is left after the calls are cancelled."""

    class Asking(client):  # type: ignore[misc,valid-type]
        async def ask(self, number: int) -> tuple[int, int]:
            try:
                return await server.reply(number), 0
            finally:
                assert not client.closed

    with job_of(Asking(), [1, 2, 3], concurrency=2) as job:
        assert within_deadline(job, lambda: len(server.begun) == 2)
        assert len(call_threads()) == 1
        job.stop()
    assert call_threads() == []
    assert sorted(server.cancelled) == [1, 2]
    assert server.begun == [1, 2]


def test_a_worker_that_ends_leaves_no_thread(server: Server) -> None:
    """On the thread of an engine the same, whether its dataflow completes, is dropped or fails."""
    with running(asking(server.reply)) as loop:
        command(loop, 0, "send", 0, [3])
        command(loop, 1, "close")
        server.let_go(3)
        watch_until(loop, lambda status: status.phase is Phase.COMPLETE)
        assert loop.captured("results") == [(0, [9])]
    assert call_threads() == []
    with running(asking(server.reply)) as loop:
        command(loop, 0, "send", 0, [4])
        assert eventually(lambda: 4 in server.begun)
    assert call_threads() == []
    assert server.cancelled == [4]
    with running(asking(refuse)) as loop:
        command(loop, 0, "send", 0, [3])
        watch_until(loop, lambda status: status.phase is Phase.FAILED)
    assert call_threads() == []


# ------------------------------------------------------------------ lists, and calls a second


class Lists:
    """Squares the numbers of a list, and remembers the lists."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.lists: list[list[int]] = []
        self.fails_at = fails_at

    async def __call__(self, numbers: list[int]) -> list[int]:
        self.lists.append(numbers)
        await asyncio.sleep(0)
        if self.fails_at in numbers:
            raise ConnectionError(f"no answer for {self.fails_at}")
        return [number**2 for number in numbers]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
def test_calls_get_lists(ordered: bool, workers: int) -> None:
    """A list may have records of several epochs; each result has the time of its record, and the order is kept."""
    function = Lists()
    epochs = [list(range(start, start + 6)) for start in range(0, 60, 6)]
    flow = asking(function, batch_size=8, concurrency=1, ordered=ordered)
    with tw.run(flow, workers=workers, engine="local") as job:
        feed(job, *epochs)
        job.wait(DEADLINE_S)
        found: dict[int, list[int]] = {}
        for epoch, batch in captured(job):
            found.setdefault(epoch, []).extend(batch)
    squares = {epoch: [n**2 for n in numbers] for epoch, numbers in enumerate(epochs)}
    assert {epoch: sorted(batch) for epoch, batch in found.items()} == squares
    assert max(map(len, function.lists)) == 8
    assert sorted(n for numbers in function.lists for n in numbers) == list(range(60))
    if workers == 1:
        assert found == squares
        assert any(len({n // 6 for n in numbers}) > 1 for numbers in function.lists), "some have two epochs"


def test_a_call_does_not_wait_for_a_full_list() -> None:
    """Few records are sent at once."""
    function = Lists()
    assert run_to_end(function, [3], [4], batch_size=1000) == [(0, [9]), (1, [16])]


def test_no_more_records_are_read_than_lists_can_have(server: Server) -> None:
    """So many lists as calls may be under way."""

    async def reply(numbers: list[int]) -> list[int]:
        return [await server.reply(number) for number in numbers]

    flow = asking(reply, concurrency=2, batch_size=3)
    with tw.run(flow, engine="local") as job:
        for epoch in range(10):
            job.input("numbers").send([epoch])
            job.input("numbers").advance_to(epoch + 1)
        assert within_deadline(job, lambda: len(server.begun) == 2)
        assert job.statistics().operators["map_async"].messages_in == 6
        server.let_go(*range(10))
        job.input("numbers").close()
        job.wait(DEADLINE_S)


@pytest.mark.parametrize("result", [None, [1], 7, {1: 2, 2: 3}], ids=str)
def test_a_list_has_a_result_for_each_record(result: Any) -> None:
    """Any other result fails the job: there is no telling whose it is."""

    async def wrong(numbers: list[int]) -> Any:
        return result

    assert "for 2 records " in str(failure_of(wrong, [1, 2], batch_size=2))


@pytest.mark.parametrize("change", [list.clear, list.reverse, list.pop, lambda numbers: numbers.append(7)])
def test_a_function_may_change_its_list(change: Any) -> None:
    """Each attempt has a list of its own, and each result is that of its record."""
    attempts = []

    async def reply(numbers: list[int]) -> list[int]:
        attempts.append(numbers[:])
        squares = [number**2 for number in numbers]
        change(numbers)
        if len(attempts) == 1:
            raise ConnectionError
        return squares

    retry = tw.Retry(attempts=2, first_pause_s=0)
    assert run_to_end(reply, [1, 2, 3], batch_size=3, retry=retry) == [(0, [1, 4, 9])]
    assert attempts == [[1, 2, 3]] * 2


class Wordless(int):
    """A number without a text."""

    def __repr__(self) -> str:
        raise LookupError("it has no words")


@pytest.mark.parametrize("batch_size", [None, 2])
@pytest.mark.parametrize("failing", ["", "time", "error", "cancelled"])
def test_a_record_without_a_text_is_called_for(failing: str, batch_size: int | None) -> None:
    """Only an error needs it, and does without it."""

    async def reply(given: Any) -> Any:
        match failing:
            case "time":
                await asyncio.sleep(3600)
            case "error":
                raise ConnectionError("no answer")
            case "cancelled":
                raise asyncio.CancelledError
        return given

    options: dict[str, Any] = {"batch_size": batch_size, "timeout_s": 0.01 if failing == "time" else 60}
    if not failing:
        assert run_to_end(reply, [Wordless(1)], **options) == [(0, [1])]
        return
    failure = failure_of(reply, [Wordless(1)], retry=tw.Retry(attempts=2, first_pause_s=0), **options)
    assert "LookupError: it" not in str(failure)
    assert {"time": "took longer", "error": "no answer", "cancelled": "was cancelled"}[failing] in str(failure)


def test_a_list_is_tried_again_whole_and_its_records_are_letters() -> None:
    """After the last attempt, each by itself; other lists do not notice."""
    function = Lists(fails_at=3)
    flow = tw.Dataflow("test")
    letters = flow.dead_letters()
    retry = tw.Retry(attempts=2, first_pause_s=0)
    numbers = flow.input("numbers")
    numbers.map_async(function, batch_size=2, retry=retry, ordered=True, dead_letters=letters).capture("results")
    letters.capture("letters")
    with tw.run(flow, engine="local") as job:
        feed(job, [1, 2], [3, 4], [5])
        job.wait(DEADLINE_S)
        assert captured(job) == [(0, [1, 4]), (2, [25])]
        found = [(entry.time, one.record, one.error) for entry in job.captured("letters") for one in entry.batch]
    assert found == [(1, 3, "ConnectionError"), (1, 4, "ConnectionError")]
    assert function.lists.count([3, 4]) == 2


def test_what_a_snapshot_has_of_a_list_is_called_for_again(tmp_path: Path, server: Server) -> None:
    """Each record once, whatever list it was in."""

    def begin(workers: int, server: Server) -> tw.types.Job:
        async def reply(numbers: list[int]) -> list[int]:
            return [await server.reply(number) for number in numbers]

        flow = asking(reply, batch_size=4, concurrency=1, name="ask")
        return tw.run(flow, workers=workers, engine="local", snapshots=tw.Snapshots(tmp_path, every_s=1000))

    with begin(1, server) as job:
        feed(job, [1, 2, 3, 4], [5, 6])
        server.let_go(1)
        assert within_deadline(job, lambda: 2 in server.begun)
        job.snapshot()
        job.stop()
    second = Server()
    second.let_go(*range(7))
    with begin(2, second) as job:
        job.wait(DEADLINE_S)
        assert sorted((epoch, n) for epoch, batch in captured(job) for n in batch) == [
            (0, 1), (0, 4), (0, 9), (0, 16), (1, 25), (1, 36)
        ]  # fmt: skip


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


def begun_at(pace: CallPace, clock: Clock, arrivals_s: list[float]) -> list[float]:
    """Return when calls begin that are asked for at some moments."""
    moments = []
    for arrival_s in arrivals_s:
        clock.now_s = arrival_s
        moments.append(arrival_s + pace.pause_s())
    return moments


def most_in(moments: list[float], window_s: float) -> int:
    """Return the greatest number of moments in any window of some seconds."""
    return max(sum(begin <= moment < begin + window_s - 1e-6 for moment in moments) for begin in moments)


@pytest.mark.parametrize("workers", [1, 2, 3])
@given(st.lists(st.floats(0, 5), min_size=1, max_size=60), st.sampled_from([2.0, 7.5, 30.0]))
def test_all_workers_together_keep_to_the_calls_a_second(workers: int, arrivals_s: list[float], rate: float) -> None:
    """In any window, however records arrive: as many as the limit says, and one more for each worker."""
    moments: list[float] = []
    for worker in range(workers):
        clock = Clock()
        clock.now_s = 0.0
        moments += begun_at(CallPace(rate, workers, clock), clock, sorted(arrivals_s)[worker::workers])
    for window_s in (0.5, 1.0, 3.0):
        assert most_in(moments, window_s) <= rate * window_s + workers


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_busy_job_makes_as_many_calls_as_it_may(workers: int) -> None:
    """Each worker begins its equal share."""
    moments: list[float] = []
    for _ in range(workers):
        clock = Clock()
        moments += begun_at(CallPace(30, workers, clock), clock, [50.0] * 100)
    assert sum(50.0 <= moment < 52.0 for moment in moments) == pytest.approx(60, abs=workers)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_running_job_keeps_to_the_calls_a_second(workers: int) -> None:
    """Each attempt counts, also one that fails and is made again."""
    moments: list[float] = []
    failing = {3, 4, 5}

    async def call(number: int) -> int:
        moments.append(time.monotonic())
        if number in failing:
            failing.remove(number)
            raise ConnectionError
        return number

    flow = tw.Dataflow("test")
    retry = tw.Retry(attempts=2, first_pause_s=0)
    flow.input("numbers").rebalance().map_async(call, per_second=200, retry=retry).capture("results")
    with tw.run(flow, workers=workers, engine="local") as job:
        feed(job, list(range(27)))
        job.wait(DEADLINE_S)
    assert len(moments) == 30
    assert max(moments) - min(moments) >= (30 / workers - 1) * workers / 200 - 0.05


def test_the_wait_for_the_pace_is_no_time_of_the_attempts() -> None:
    """Each call that fails is tried again, however long it has waited for its attempts."""
    failed = set()

    async def call(number: int) -> int:
        if number not in failed:
            failed.add(number)
            raise ConnectionError
        return number

    retry = tw.Retry(within_s=0.3, first_pause_s=0)
    results = run_to_end(call, list(range(12)), per_second=20, retry=retry)
    assert sorted(number for _, batch in results for number in batch) == list(range(12))


def test_a_list_fills_while_its_call_waits_for_the_pace() -> None:
    """It has the records that came during the pause."""

    class Paces(CallPace):
        def pause_s(self) -> float:
            asked.append(len(asked))
            return 0.3 if len(asked) > 1 else 0.0

    asked: list[int] = []
    function = Lists()
    policy = CallPolicy(8, per_second=1, form=ListOfRecords(10))
    calls = AsyncCalls("tidewheel-async-test", function, policy, lambda: None, Paces(1, 1))
    try:
        for number in range(6):
            calls.submit([(number, number)])
            assert eventually(lambda: len(asked) >= 2 if number else function.lists == [[0]])  # noqa: B023 - called at once
        assert eventually(lambda: sum(map(len, function.lists)) == 6)
    finally:
        calls.close()
    assert function.lists == [[0], [1, 2, 3, 4, 5]]
    assert call_threads() == []
