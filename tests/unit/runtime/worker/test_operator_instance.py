"""Stages of a fused chain: what goes from one to the next, and whose name an error has."""

import threading
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import DEADLINE_S, captured, feed, run_flow, scheduled, settle
from tests.kit.runtime.stuck_flows import deploy
from tests.unit.runtime.worker.test_worker_loop import command, running, watch_until
from tidewheel.runtime.messages.envelope import InputCommand
from tidewheel.runtime.messages.feeder_status import Phase
from tidewheel.runtime.worker.flow_control import Intake
from tidewheel.runtime.worker.mailbox import Mailbox


def failing(describe: Callable[[tw.Stream[Any]], object], *epochs: list[int], workers: int = 1) -> tw.JobError:
    """Run what is put after an input, and return the error of the job."""
    flow = tw.Dataflow("failing")
    describe(flow.input("numbers"))
    with pytest.raises(tw.JobError) as failure:
        run_flow(flow, *epochs, workers=workers)
    return failure.value


@pytest.mark.parametrize(
    ("describe", "name"),
    [
        (lambda s: s.map(lambda n: 1 // n).map(str).map(str), "map"),
        (lambda s: s.map(abs).map(lambda n: 1 // n).map(str), "map-2"),
        (lambda s: s.map(abs).map(abs).map(lambda n: 1 // n), "map-3"),
        (lambda s: s.exchange(abs).map(lambda n: 1 // n), "map"),
        (lambda s: s.map(abs).filter(lambda n: 1 // n).map(abs), "filter"),
        (lambda s: s.map(abs).flat_map(lambda n: [1 // n]), "flat_map"),
        (lambda s: s.map(abs).flat_map(lambda n: (1 // m for m in [n])), "flat_map"),
        (lambda s: s.map(abs).inspect(lambda n: 1 // n).map(str), "inspect"),
        (lambda s: s.map(abs).map_batches(lambda b: [1 // n for n in b]).map(abs), "map_batches"),
        (lambda s: s.iterate(lambda i: (i.filter(lambda n: False), i.map(abs).map(lambda n: 1 // n))), "iterate/map-2"),
    ],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_names_the_very_stage(describe: Callable[[tw.Stream[Any]], object], name: str, workers: int) -> None:
    """With worker and time, and the user's line in the traceback: not the chain that it was fused into."""
    error = failing(describe, [1], [2], [3, 0], workers=workers)
    at = (2, 0) if name.startswith("iterate/") else 2
    assert (error.operator, error.time) == (name, at)
    assert error.worker in range(workers)
    assert f"operator {name!r} " in str(error).splitlines()[0]
    assert f"on worker {error.worker} at time {at!r}: ZeroDivisionError" in str(error).splitlines()[0]
    assert "1 // " in error.traceback_text
    assert "PartError" not in str(error)


def test_a_key_that_fails_names_the_exchange_and_not_its_chain() -> None:
    """Where an exchange is at the head of a chain, it is the one that asks for the key."""
    error = failing(lambda s: s.exchange(lambda n: 1 // n).map(str), [1, 0], workers=2)
    assert "operator 'exchange' could not exchange a record" in str(error)
    assert error.operator == "exchange"


@pytest.mark.parametrize("sent_at", [None, 7])
def test_a_key_that_fails_names_the_time_of_its_record(sent_at: int | None) -> None:
    """Also where the sender has no inputs, or sends at another time than that of the message at hand."""

    def later(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            with lent.delayed(7) as token:
                output.send(token, batch)

    def describe(stream: tw.Stream[Any]) -> None:
        sender = stream if sent_at is None else stream.unary(scheduled(later), name="later")
        sender.exchange(lambda n: 1 // n)

    error = failing(describe, [], [], [1, 0], workers=2)
    assert error.time == (2 if sent_at is None else sent_at)


@pytest.mark.parametrize("wrong", [None, 5, "text", (1, 2), {1: 2}, range(3), np.float64(3), np.array(7), {1, 2}])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_map_batches_that_returns_no_batch_is_refused(wrong: Any, after: int) -> None:
    """At the head, in the middle and at the end of a chain alike, by its name, and it is said what a batch is."""

    def describe(stream: tw.Stream[Any]) -> None:
        for _ in range(after):
            stream = stream.map(abs)
        stream.map_batches(lambda batch: wrong).map(lambda n: n)

    error = failing(describe, [], [1])
    assert (error.operator, error.time, error.worker) == ("map_batches", 1, 0)
    assert "TypeError: a batch is a list, a pyarrow.Table, a pyarrow.RecordBatch or a numpy.ndarray, not" in str(error)


@pytest.mark.parametrize(
    "empty",
    [
        lambda s: s.filter(lambda n: False),
        lambda s: s.flat_map(lambda n: ()),
        lambda s: s.map_batches(lambda batch: []),
        lambda s: s.map_batches(lambda batch: pa.table({"n": pa.array([], pa.int64())})),
        lambda s: s.map_batches(lambda batch: np.zeros(0)),
    ],
)
def test_an_empty_result_goes_no_further(empty: Callable[[tw.Stream[Any]], tw.Stream[Any]]) -> None:
    """The stages after it are not even called; only where there is something do they run."""
    calls: list[Any] = []

    def note(batch: Any) -> Any:
        calls.append(batch)
        return batch

    flow = tw.Dataflow("empty")
    empty(flow.input("numbers").map(abs)).map_batches(note).map(str).capture("results")
    with deploy(flow, 1) as job:
        feed(job, [1], [2])
        job.wait(DEADLINE_S)
        assert (captured(job), calls) == ([], [])
        found = job.statistics().operators
        assert [(one.records_in, one.messages_out) for one in found.values()][1:] == [(2, 2), (2, 0), *[(0, 0)] * 3]


def test_each_stage_gets_what_the_one_before_returned() -> None:
    """The kind of batch may change on the way, and what is passed on unchanged is the same object."""
    seen: list[Any] = []
    flow = tw.Dataflow("kinds")

    def note(batch: Any) -> Any:
        seen.append(batch)
        return batch

    table = flow.input("numbers").map_batches(lambda batch: pa.table({"n": batch}))
    rows = table.map_batches(note).inspect(seen.append).map_batches(note)
    array = rows.map_batches(lambda table: table["n"].to_numpy())
    array.filter(lambda n: n > 1).map(lambda n: n * 10).capture("results")
    assert run_flow(flow, [1, 2, 3]) == [(0, [20, 30])]
    first, *rows_seen, last = seen
    assert first is last
    assert rows_seen == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_a_stage_does_not_change_what_others_got() -> None:
    """The input of a chain may be read by somebody else as well; stages make new batches."""
    flow = tw.Dataflow("shared")
    numbers = flow.input("numbers")
    numbers.map(lambda n: n + 1).filter(bool).capture("results")
    numbers.capture("numbers")
    with deploy(flow, 1) as job:
        feed(job, [1, 2])
        job.wait(DEADLINE_S)
        assert (captured(job), captured(job, "numbers")) == ([(0, [2, 3])], [(0, [1, 2])])


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, StopIteration, AssertionError])
def test_a_stage_that_exits_fails_the_job(error: type[BaseException]) -> None:
    """It does not end the process, nor in silence the loop over what comes."""

    def leave(number: int) -> int:
        raise error

    failure = failing(lambda s: s.map(abs).map(leave).map(str), [1])
    assert (failure.operator, failure.time) == ("map-2", 0)
    assert error.__name__ in str(failure).splitlines()[0]


def test_an_interrupt_in_a_stage_is_the_drivers() -> None:
    """Ctrl-C on the local engine ends the program, and the job that it interrupted goes no further."""

    def interrupt(number: int) -> int:
        raise KeyboardInterrupt

    flow = tw.Dataflow("interrupted")
    flow.input("numbers").map(abs).map(interrupt).capture("results")
    job = deploy(flow, 1)
    job.input("numbers").send([1])
    with pytest.raises(KeyboardInterrupt):
        settle(job)
    with raises(tw.JobError):
        job.captured("results")
    job.stop()


def test_what_came_before_the_error_has_been_sent() -> None:
    """A chain sends batch by batch: what the earlier ones became has gone on, and nothing of the failed one."""
    flow = tw.Dataflow("partly")
    sent: list[Any] = []

    def note(input: tw.InputPort, output: tw.OutputPort) -> None:
        sent.extend(batch for _, batch in input)

    flow.input("numbers").map(lambda n: 6 // n).map(lambda n: -n).unary(scheduled(note), name="note")
    with raises(tw.JobError):
        run_flow(flow, [1], [2, 3], [6, 0])
    assert sent in ([], [[-6], [-3, -2]])


def test_a_busy_stage_is_reported_with_its_chain() -> None:
    """While a stage runs, the worker says which operator it is in, and at which time."""
    entered, leave = threading.Event(), threading.Event()

    def wait(number: int) -> int:
        entered.set()
        assert leave.wait(DEADLINE_S)
        return number

    flow = tw.Dataflow("busy")
    flow.input("numbers").map(abs).map(wait).probe("done")
    with running(flow) as loop:
        command(loop, 0, "advance", 4)
        command(loop, 1, "send", 4, [7])
        assert entered.wait(DEADLINE_S)
        busy = loop.report(0.05)
        leave.set()
        assert (busy.operator, busy.time) == ("map > map-2", 4)  # type: ignore[union-attr]
        command(loop, 2, "close")
        watch_until(loop, lambda status: status.phase is Phase.COMPLETE)


def send(handle: int, batch: Any, size: int = 0) -> InputCommand:
    return InputCommand("numbers", "send", 0, batch, size, handle)


def clone(handle: int, origin: int) -> InputCommand:
    return InputCommand("numbers", "clone", 0, handle=handle, origin=origin)


def close(handle: int) -> InputCommand:
    return InputCommand("numbers", "close", handle=handle)


def taken(mailbox: Mailbox) -> list[InputCommand]:
    found = []
    while mailbox:
        found.append(mailbox.take())
    return found


def test_commands_of_a_handle_wait_until_it_is_made() -> None:
    """Also those of handles that are made from one that is not there yet."""
    mailbox = Mailbox(Intake())
    early = [send(5, "a"), clone(6, 5), send(6, "b"), close(6), close(5)]
    for one in early:
        mailbox.put(-2, one)
    assert not mailbox
    mailbox.put(-1, clone(5, 0))
    mailbox.put(-1, close(0))
    assert taken(mailbox) == [clone(5, 0), *early, close(0)]


def test_what_a_feeder_sends_keeps_its_order() -> None:
    """Also by several handles: the end of a substream by one of them stays behind its records by another."""
    mailbox = Mailbox(Intake())
    end = InputCommand("numbers", "end", 0, ["k"], handle=2)
    for one in (clone(2, 1), send(1, "k"), end):
        mailbox.put(-2, one)
    mailbox.put(-3, send(2, "other"))
    mailbox.put(-1, clone(1, 0))
    assert taken(mailbox) == [clone(1, 0), clone(2, 1), send(1, "k"), end, send(2, "other")]


def test_what_is_taken_counts_for_its_feeder() -> None:
    """When it is taken, and not before."""
    intake = Intake()
    mailbox = Mailbox(intake)
    mailbox.put(-7, send(3, "a", 10))
    mailbox.put(-1, send(0, "b", 5))
    mailbox.put(-1, clone(3, 0))
    assert mailbox.next_sends
    mailbox.take()
    assert (intake.taken.get(-1), intake.taken.get(-7), intake.total, mailbox.next_sends) == (5, None, 5, False)
    taken(mailbox)
    assert (intake.taken.get(-1), intake.taken.get(-7), intake.total) == (5, 10, 15)


def conversation(random: Random) -> tuple[list[list[InputCommand]], dict[int, list[Any]]]:
    """Return what each feeder says in turn, and what is sent by each handle."""
    feeders: list[list[InputCommand]] = [[] for _ in range(4)]
    owner = {0: 0}
    expected: dict[int, list[Any]] = {0: []}
    made = 0
    for step in range(60):
        if not owner:
            break
        handle = random.choice(sorted(owner))
        feeder = owner[handle]
        kind = random.choice(["send", "send", "clone", "hand over", "close"])
        if kind == "send":
            feeders[feeder].append(send(handle, step))
            expected[handle].append(step)
            continue
        if kind in {"clone", "hand over"}:
            made += 1
            feeders[feeder].append(clone(made, handle))
            owner[made] = feeder if kind == "clone" else random.randrange(len(feeders))
            expected[made] = []
        if kind in {"close", "hand over"}:
            feeders[feeder].append(close(handle))
            del owner[handle]
    return feeders, expected


@pytest.mark.parametrize("seed", range(200))
def test_any_order_between_feeders_makes_sense(seed: int) -> None:
    """Handles are made, handed from feeder to feeder, used and closed; each feeder's own order is kept, no more.

    Whatever the order in which the feeders' commands come, each handle is made before it is used, from one that is
    there, what is done with it keeps its order, and it is closed last.
    """
    random = Random(seed)
    feeders, expected = conversation(random)
    mailbox = Mailbox(Intake())
    left = [list(commands) for commands in feeders]
    got: dict[int, list[Any]] = {0: []}
    closed: set[int] = set()
    while any(left) or mailbox:
        number = random.randrange(len(left))
        if left[number]:
            mailbox.put(-1 - number, left[number].pop(0))
        elif mailbox:
            command = mailbox.take()
            user = command.origin if command.action == "clone" else command.handle
            assert user in got, "it is used before it is made"
            assert user not in closed, "it is used after it was closed"
            if command.action == "clone":
                got[command.handle] = []
            elif command.action == "close":
                closed.add(command.handle)
            else:
                got[command.handle].append(command.batch)
    assert got == expected
