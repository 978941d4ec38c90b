"""Tokens that messages lend, and those that operators retain of them, in a job on the local engine."""

import pickle
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import (
    fail_flow,
    fail_operator,
    feed,
    flow_of,
    run_flow,
    run_operator,
    scheduled,
)
from tidewheel.progress import ROOT, PathSummary


def raise_token_error(error: tw.JobError) -> None:
    """Raise what the operator raised, which the job's error carries as its cause."""
    assert error.operator is not None
    assert isinstance(error.__cause__, tw.errors.TokenError)
    raise error.__cause__


def test_a_lent_token_sends_at_the_time_of_its_message() -> None:
    """Nothing has to be retained to send while the message is at hand, any number of times."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            output.send(lent, batch)
            output.send(lent, [-number for number in batch])

    assert run_operator(schedule, [1], [2]) == [(0, [1]), (0, [-1]), (1, [2]), (1, [-2])]


def test_a_retained_token_sends_when_its_message_is_long_gone() -> None:
    """Records may be kept with a token across calls, and leave at the token's time."""
    kept: list[tuple[tw.TimestampToken, Any]] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        kept.extend((lent.retain(), batch) for lent, batch in input)
        if not input.frontier.less_equal(2):
            for token, batch in kept:
                with token:
                    output.send(token, batch)
            kept.clear()

    assert run_operator(schedule, [1], [2], [3]) == [(0, [1]), (1, [2]), (2, [3])]


def test_a_retained_token_holds_its_time_open() -> None:
    """What is downstream waits as long as the token lives, and not a time longer."""
    kept: list[tw.TimestampToken] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        kept.extend(lent.retain() for lent, _ in input)

    job = tw.run(flow_of(scheduled(schedule)), engine="local")
    feed(job, [], [1])
    with raises(tw.JobError):
        job.wait()
    assert set(job.probe("done").frontier) == {1}
    kept[0].downgrade(4)
    job.probe("done").wait_until(4)
    assert set(job.probe("done").frontier) == {4}
    kept.pop().discard()
    job.wait()
    assert set(job.probe("done").frontier) == set()
    job.stop()


def test_delayed_lends_a_later_token() -> None:
    """An operator can say at once that what it sends will be later, so that earlier times complete."""
    kept: list[tuple[tw.TimestampToken, Any]] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            kept.append((lent.delayed(lent.time + 10), batch))
        if not input.frontier.less_equal(0):
            for token, batch in kept:
                with token:
                    output.send(token, batch)
            kept.clear()

    assert run_operator(schedule, [1, 2]) == [(10, [1, 2])]


def test_a_delay_backwards_is_refused_and_leaves_nothing_behind() -> None:
    """The error names operator and times; no token of the failed call stays to hold the job up."""
    refused: list[str] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            for wrong in (lent.time - 1, "later", (lent.time, 0)):
                with pytest.raises(tw.errors.TokenError) as caught:
                    lent.delayed(wrong)
                refused.append(str(caught.value))
            output.send(lent, batch)

    assert run_operator(schedule, [], [7]) == [(1, [7])]
    for wrong, message in zip(("0", "'later'", "(1, 0)"), refused, strict=True):
        assert f"operator 'subject' cannot delay the token of a message at time 1 to {wrong} on output 0" in message
        assert (
            "it lets its receiver send there from 1 on, at times that are whole numbers from 0 to 2^63 - 1" in message
        )


AFTER_THE_CALL = (
    r"operator 'subject' used the token lent by a message at time 0 after it returned: "
    r"retain\(\) it while the message is at hand"
)


@pytest.mark.parametrize(
    "use", [lambda lent, out: lent.retain(), lambda lent, out: lent.delayed(5), lambda lent, out: out.send(lent, [1])]
)
def test_a_lent_token_is_of_no_use_in_the_next_call(use: Any) -> None:
    """It is gone when the operator returns: the error names operator and time, and says to retain it."""
    kept: list[tw.types.LentToken] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        if kept:
            use(kept[0], output)
        kept.extend(lent for lent, _ in input)

    with pytest.raises(tw.errors.TokenError, match=AFTER_THE_CALL):
        raise_token_error(fail_operator(schedule, [1]))


def test_a_lent_token_is_of_no_use_outside_the_operator() -> None:
    """Between two calls of its operator, and after the job, it raises too."""
    kept: list[tw.types.LentToken] = []
    run_operator(lambda input, output: kept.extend(lent for lent, _ in input), [1])
    with pytest.raises(tw.errors.TokenError, match=AFTER_THE_CALL):
        kept[0].retain()
    with pytest.raises(tw.errors.TokenError, match=AFTER_THE_CALL):
        kept[0].delayed(3)


def test_a_lent_token_is_of_no_use_once_the_operator_has_returned() -> None:
    """Not even in the same step, to an operator that runs after it."""
    kept: list[tw.types.LentToken] = []
    refused: list[tw.errors.TokenError] = []

    def keep(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            kept.append(lent)
            output.send(lent, batch)

    def use(input: tw.InputPort, output: tw.OutputPort) -> None:
        for _ in input:
            with raises(tw.errors.TokenError) as no:
                kept[0].retain()
            refused.append(no.value)

    assert run_flow(two_operators(keep, use), [1]) == []
    assert len(refused) == 1


def two_operators(first: Any, second: Any) -> tw.Dataflow:
    """Return a dataflow of two operators, one after the other."""
    flow = tw.Dataflow("test")
    flow.input("numbers").unary(scheduled(first), name="first").unary(scheduled(second), name="second").capture(
        "results"
    )
    return flow


def test_a_token_of_another_operator_is_refused() -> None:
    """Retained or lent, it sends on its own operator's output only; the error names who used it."""
    kept: list[tw.TimestampToken] = []

    def keep(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            kept.append(lent.retain())
            output.send(lent, batch)

    def use(input: tw.InputPort, output: tw.OutputPort) -> None:
        for _, batch in input:
            output.send(kept[0], batch)

    error = fail_flow(two_operators(keep, use), [1])
    assert (error.operator, error.worker, error.time) == ("second", 0, 0)
    with raises(tw.errors.TokenError):
        raise_token_error(error)
    kept.pop().discard()


def test_a_token_lent_to_another_operator_is_refused() -> None:
    """An output of another operator cannot be used with it either."""
    outputs: list[tw.OutputPort] = []

    def remember(input: tw.InputPort, output: tw.OutputPort) -> None:
        outputs.append(output)
        for lent, batch in input:
            output.send(lent, batch)

    for use in (
        lambda lent: outputs[0].send(lent, [1]),
        lambda lent: lent.retain(outputs[0]),
        lambda lent: lent.delayed(3, outputs[0]),
    ):
        outputs.clear()

        def misuse(input: tw.InputPort, output: tw.OutputPort, use: Any = use) -> None:
            for lent, _ in input:
                use(lent)

        error = fail_flow(two_operators(remember, misuse), [1])
        assert error.operator == "second"
        with raises(tw.errors.TokenError):
            raise_token_error(error)


def flow_of_two_outputs(schedule: Any, summaries: Any = None) -> tw.Dataflow:
    flow = tw.Dataflow("test")
    left, right = flow.operator([flow.input("numbers")], 2, scheduled(schedule), summaries, name="fork")
    left.capture("left")
    right.capture("results")
    return flow


def test_with_two_outputs_the_one_has_to_be_named() -> None:
    """`retain` and `delayed` do not guess; the error says how to name it."""
    for use in (lambda lent: lent.retain(), lambda lent: lent.delayed(5)):

        def schedule(input: tw.InputPort, left: tw.OutputPort, right: tw.OutputPort, use: Any = use) -> None:
            for lent, _ in input:
                use(lent)

        with raises(tw.errors.TokenError):
            raise_token_error(fail_flow(flow_of_two_outputs(schedule), [1]))


def test_a_named_output_gets_the_token_and_the_other_does_not() -> None:
    """A token is for the output for which it was retained: it sends there, and is refused at the other."""
    kept: list[tw.TimestampToken] = []

    def schedule(input: tw.InputPort, left: tw.OutputPort, right: tw.OutputPort) -> None:
        for lent, _ in input:
            kept.append(lent.retain(right))
        if kept and not input.frontier.less_equal(0):
            with kept.pop() as token:
                with raises(tw.errors.TokenError):
                    left.send(token, [1])
                right.send(token, [2])

    assert run_flow(flow_of_two_outputs(schedule), [1]) == [(0, [2])]


def test_an_output_that_the_input_does_not_reach_gets_no_token() -> None:
    """By the operator's summaries: the error says so, also where it would be sent with the lent token."""
    summaries = {(0, 0): PathSummary.identity(ROOT)}
    for use in (lambda lent, right: lent.retain(right), lambda lent, right: right.send(lent, [1])):

        def schedule(input: tw.InputPort, left: tw.OutputPort, right: tw.OutputPort, use: Any = use) -> None:
            for lent, _ in input:
                use(lent, right)

        message = (
            r"operator 'fork': a message at time 0 on input 0 lends no one token for output 1: .* nothing at that input"
        )
        with pytest.raises(tw.errors.TokenError, match=message):
            raise_token_error(fail_flow(flow_of_two_outputs(schedule, summaries), [1]))


def test_of_two_ordered_paths_the_earlier_counts() -> None:
    """A path that brings everything later than another does says nothing."""
    paths = [PathSummary.advance(ROOT, 1), PathSummary.advance(ROOT, 2)]

    def schedule(input: tw.InputPort, left: tw.OutputPort, right: tw.OutputPort) -> None:
        for lent, _ in input:
            with lent.retain(right) as token:
                right.send(token, [2])

    assert run_flow(flow_of_two_outputs(schedule, {(0, 1): paths}), [1]) == [(1, [2])]


def test_sending_after_discard_is_refused() -> None:
    """A token that was discarded in the same call is as useless as an old one."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            token = lent.retain()
            token.discard()
            output.send(token, batch)

    with raises(tw.errors.TokenError):
        raise_token_error(fail_operator(schedule, [1]))


@pytest.mark.parametrize("workers", [2, 3])
def test_a_token_of_another_worker_is_refused(workers: int) -> None:
    """Two workers of this process that share a list could mix their tokens up; on Ray they could not."""
    kept: list[tw.TimestampToken] = []
    misused: list[int] = []

    def build(context: tw.OperatorContext) -> Any:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                if context.worker == 0:
                    kept.append(lent.retain())
                else:
                    misused.append(context.worker)
                    output.send(kept[0], batch)

        return schedule

    error = fail_flow(flow_of(build), [1], [2], workers=workers)
    assert misused == [1]
    assert isinstance(error.__cause__, tw.errors.TokenError)


def test_a_lent_token_cannot_be_pickled() -> None:
    """It is a token: the error is the one of tokens, and not whatever cannot be pickled behind it."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, _ in input:
            pickle.dumps(lent)

    with pytest.raises(tw.errors.TokenError):
        raise_token_error(fail_operator(schedule, [1]))


def test_a_lent_token_is_shown_with_its_time_and_operator() -> None:
    """Printing one in a debugger says what it is."""
    shown: list[str] = []
    run_operator(lambda input, output: shown.extend(repr(lent) for lent, _ in input), [], [1])
    assert shown == ["LentToken(time=1, operator='subject')"]
