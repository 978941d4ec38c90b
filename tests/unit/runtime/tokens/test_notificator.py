"""The notificator: when it says that a time is complete, and what becomes of the tokens."""

from collections.abc import Callable
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.runtime.one_operator import DEADLINE_S, fail_flow, flow_of, run_flow
from tests.kit.runtime.worker_group import WorkerGroup
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.tokens.notificator import Notificator
from tidewheel.runtime.worker.operator_context import instance_of


def notified(note: Callable[[Any], object]) -> Build:
    """Return the build function of an operator that sends [time] and calls ``note(time)`` for each complete time."""

    def build(context: tw.OperatorContext) -> Schedule:
        notificator = context.notificator()

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, _ in input:
                notificator.notify_at(lent)
            for token in notificator.ready(input):
                note(token.time)
                output.send(token, [token.time])

        return schedule

    return build


def ignore(time: Any) -> None:
    """Note nothing."""


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_each_time_is_ready_once(workers: int) -> None:
    """However many messages ask for it, and on each worker that asks."""
    flow = flow_of(notified(ignore))
    with tw.run(flow, workers=workers, engine="local") as job:
        for time in (0, 3):
            job.input("numbers").advance_to(time)
            for _ in range(4 * workers):
                job.input("numbers").send([1])
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        results = [(result.time, result.batch) for result in job.captured("results")]
    assert sorted(results) == [(0, [0])] * workers + [(3, [3])] * workers


def test_a_time_is_not_ready_before_it_is_complete() -> None:
    """As long as more can come it is waited for, whatever else is complete; and it holds back who comes after."""
    group = WorkerGroup(flow_of(notified(ignore)), workers=2)
    group.send("numbers", [1])
    group.advance("numbers", 1)
    group.send("numbers", [2])
    group.run()
    assert group.captured("results") == [(0, [0])]
    assert [set(core.probes.frontier("done")) for core in group.cores] == [{1}, {1}]
    group.close("numbers")
    group.run()
    assert group.captured("results") == [(0, [0]), (1, [1])]
    assert group.is_complete


def test_several_inputs_are_all_waited_for() -> None:
    """A time is ready when none of the inputs can have it any more."""

    def build(context: tw.OperatorContext) -> Schedule:
        notificator = context.notificator()

        def schedule(left: tw.InputPort, right: tw.InputPort, output: tw.OutputPort) -> None:
            for port in (left, right):
                for lent, _ in port:
                    notificator.notify_at(lent)
            for token in notificator.ready(left, right):
                output.send(token, [token.time])

        return schedule

    flow = tw.Dataflow("test")
    flow.input("left").binary(flow.input("right"), build, name="subject").capture("results")
    group = WorkerGroup(flow, workers=1)
    group.send("left", [1])
    group.advance("left", 5)
    group.run()
    assert group.captured("results") == []
    group.advance("right", 3)
    group.run()
    assert group.captured("results") == [(0, [0])]
    group.send("right", [1])
    group.close("right")
    group.run()
    assert group.captured("results") == [(0, [0]), (3, [3])]


def test_tokens_are_discarded_one_after_the_other() -> None:
    """Each when the next is asked for, unless the operator has discarded it; a clone is the operator's own."""
    kept: list[tw.TimestampToken] = []
    live: list[list[bool]] = []

    def build(context: tw.OperatorContext) -> Schedule:
        notificator = context.notificator()
        seen: list[tw.TimestampToken] = []

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, _ in input:
                notificator.notify_at(lent)
            for token in notificator.ready(input):
                seen.append(token)
                live.append([other.is_live for other in seen])
                if token.time == 1:
                    kept.append(token.clone())
                    token.discard()

        return schedule

    group = WorkerGroup(flow_of(build), workers=1)
    group.feed("numbers", [1], [2], [3])
    group.run()
    assert live == [[True], [False, True], [False, False, True]]
    assert set(group.cores[0].probes.frontier("done")) == {1}
    kept.pop().discard()
    group.run()
    assert group.is_complete
    assert group.cores[0].leaks == []


def test_own_tokens_are_taken_over() -> None:
    """One for a new time is kept; one for a time that is waited for already is discarded, unless it is the same."""
    pending: list[tuple[Any, ...]] = []

    def build(context: tw.OperatorContext) -> Schedule:
        notificator = context.notificator()

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, _ in input:
                own = lent.delayed(lent.time + 10)
                notificator.notify_at(own)
                notificator.notify_at(own)
                assert own.is_live
                second = lent.delayed(lent.time + 10)
                notificator.notify_at(second)
                assert not second.is_live
                pending.append((notificator.times, 10 in notificator, 0 in notificator))
            for token in notificator.ready(input):
                output.send(token, [token.time])

        return schedule

    assert run_flow(flow_of(build), [1], [2]) == [(10, [10]), (11, [11])]
    assert pending == [((10,), True, False), ((10, 11), True, False)]


def test_times_asked_for_meanwhile_are_ready_too() -> None:
    """In the same round if they are complete, else when they are; the same time may be asked for again."""
    seen: list[int] = []

    def build(context: tw.OperatorContext) -> Schedule:
        notificator = context.notificator()

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, _ in input:
                notificator.notify_at(lent)
            for token in notificator.ready(input):
                seen.append(token.time)
                if len(seen) < 6:
                    notificator.notify_at(token.delayed(token.time + (len(seen) % 2)))

        return schedule

    group = WorkerGroup(flow_of(build), workers=1)
    group.send("numbers", [1])
    group.advance("numbers", 2)
    group.run()
    assert seen == [0, 1, 1]
    group.close("numbers")
    group.run()
    assert seen == [0, 1, 1, 2, 2, 3]
    assert group.is_complete


def test_what_is_left_when_a_loop_is_broken_off_is_ready_in_the_next_call() -> None:
    """An operator may do a little each time that it is scheduled."""
    calls: list[list[Any]] = []

    def build(context: tw.OperatorContext) -> Schedule:
        notificator = context.notificator()

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, _ in input:
                notificator.notify_at(lent)
            for token in notificator.ready(input):
                calls.append([token.time])
                break
            if notificator.times:
                context.activate()

        return schedule

    group = WorkerGroup(flow_of(build), workers=1)
    group.feed("numbers", [1], [2], [3])
    group.run()
    assert calls == [[0], [1], [2]]
    assert group.is_complete


def test_a_time_that_was_taken_is_not_waited_for_any_more() -> None:
    """Its token is the operator's; also one that would have been ready next."""

    def build(context: tw.OperatorContext) -> Schedule:
        notificator = context.notificator()

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, _ in input:
                notificator.notify_at(lent)
            for token in notificator.ready(input):
                output.send(token, [token.time])
                for time in notificator.times:
                    with notificator.take(time) as own:
                        output.send(own, [f"early {time}"])

        return schedule

    group = WorkerGroup(flow_of(build), workers=1)
    group.feed("numbers", [1], [2], [3])
    group.run()
    assert group.captured("results") == [(0, [0]), (1, ["early 1"]), (2, ["early 2"])]
    assert group.is_complete
    with pytest.raises(KeyError):
        Notificator().take(3)


def test_an_error_names_the_time_that_was_complete() -> None:
    """What an operator raises while it works on a time is reported at that time."""

    def fail(time: int) -> None:
        if time == 2:
            raise LookupError("no more")

    error = fail_flow(flow_of(notified(fail)), [1], [1], [1], [1])
    assert (error.operator, error.worker, error.time) == ("subject", 0, 2)
    assert "operator 'subject' failed on worker 0 at time 2: LookupError: no more" in str(error)


def test_tokens_that_are_none_of_ones_own_are_refused() -> None:
    """A token of a call that is over, or one for which no output is named, is an error that says what to do."""
    lent_before: list[tw.types.LentToken] = []

    def build(context: tw.OperatorContext) -> Schedule:
        notificator = context.notificator()

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            if lent_before:
                notificator.notify_at(lent_before[0])
            lent_before.extend(lent for lent, _ in input)
            context.activate()

        return schedule

    error = fail_flow(flow_of(build), [1])
    assert "used the token lent by a message at time 0 after it returned" in str(error)

    def build_two(context: tw.OperatorContext) -> Schedule:
        notificator = context.notificator()

        def schedule(input: tw.InputPort, left: tw.OutputPort, right: tw.OutputPort) -> None:
            for lent, _ in input:
                notificator.notify_at(lent)

        return schedule

    flow = tw.Dataflow("test")
    flow.operator([flow.input("numbers")], 2, build_two, name="subject")
    assert "say for which one the token is to be kept, with retain(output), delayed(time, output) or notify_at(" in str(
        fail_flow(flow, [1])
    )


@pytest.mark.parametrize("lends", [True, False])
def test_a_second_output_for_one_time_is_an_error(lends: bool) -> None:
    """A notificator keeps one token for a time. It does not leave out the output that is asked for later."""

    def build(context: tw.OperatorContext) -> Schedule:
        notificator = context.notificator()

        def schedule(input: tw.InputPort, *outputs: tw.OutputPort) -> None:
            for lent, _ in input:
                notificator.notify_at(lent, outputs[0])
                notificator.notify_at(lent, outputs[0])
                for output in outputs:
                    notificator.notify_at(*((lent, output) if lends else (lent.retain(output),)))

        return schedule

    flow = tw.Dataflow("test")
    flow.operator([flow.input("numbers")], 2, build, name="subject")
    error = str(fail_flow(flow, [1]))
    assert "'subject' asked one notificator to keep tokens of two outputs for time 0, and it keeps one. Make" in error


def test_each_output_has_a_notificator_of_its_own() -> None:
    """A token sends on one output: whoever has several asks for each."""

    def build(context: tw.OperatorContext) -> Schedule:
        notificators = [context.notificator() for _ in range(2)]
        assert instance_of(context).kept.notificators == notificators, "the runtime finds them"

        def schedule(input: tw.InputPort, *outputs: tw.OutputPort) -> None:
            for lent, _ in input:
                for notificator, output in zip(notificators, outputs, strict=True):
                    notificator.notify_at(lent, output)
            for port, (notificator, output) in enumerate(zip(notificators, outputs, strict=True)):
                for token in notificator.ready(input):
                    output.send(token, [(port, token.time)])

        return schedule

    flow = tw.Dataflow("test")
    left, right = flow.operator([flow.input("numbers")], 2, build, name="subject")
    left.concat(right).capture("results")
    assert sorted(run_flow(flow, [1], [2])) == [(0, [(0, 0)]), (0, [(1, 0)]), (1, [(0, 1)]), (1, [(1, 1)])]


def test_who_looks_at_no_frontier_cannot_wait() -> None:
    """The error says why there is none."""
    flow = tw.Dataflow("test")
    flow.operator([flow.input("numbers")], 1, notified(ignore), notify=False, name="subject")
    assert "was described with notify=False" in str(fail_flow(flow, [1]))
