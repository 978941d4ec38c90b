"""Explanations of jobs that wait for the ends of substreams."""

from typing import Any

import pytest

import tidewheel as tw
from tests.behaviour.operators.test_substream_errors import fail, rest
from tests.kit.messages import raises


def test_explain_says_which_substreams_are_open() -> None:
    """As what holds their tokens waits for nothing but that."""
    flow = tw.Dataflow("open")
    numbers = flow.input("numbers").substreams("rests", rest)
    numbers.collect_substream(lambda key, rows: key).probe("done")
    with tw.run(flow, workers=2, engine="local") as job:
        handle = job.input("numbers")
        handle.send([0, 1])
        handle.end_substream(0)
        handle.advance_to(1)
        with raises(tw.JobError) as told:
            job.probe("done").wait_until(1)
        assert "close() lets it go on; its substreams end by end_substream(...) or close()" in str(told.value)
        assert "'collect_substream' has records of substreams that have not ended, and waits for that" in str(
            told.value
        )
        handle.close()


def use_again(handle: Any) -> None:
    """Send and end one substream after the other with the same key."""
    for epoch in range(3):
        handle.advance_to(epoch)
        handle.send([1])
        handle.end_substream(1)


@pytest.mark.parametrize("bound", ["soft", "firm"])
def test_explain_says_that_nobody_looks_at_ends(bound: Any) -> None:
    """What comes of a key that is used again waits behind the end that nobody has looked at."""

    def build(context: Any) -> Any:
        def schedule(input: Any, output: Any) -> None:
            for token, batch in input:
                output.send(token, batch)

        return schedule

    message = fail(
        lambda stream: stream.substreams("rests", rest).unary(build, bound=bound, name="u").probe("done"), use_again
    )
    assert "if an end is before them, look at it: for key in input.ended" in message


def test_explain_says_that_a_key_waits_to_be_used_again() -> None:
    """At the input, as somebody keeps a token of what had the key before until a later time is complete."""

    def build(context: Any) -> Any:
        kept = context.notificator()

        def schedule(input: Any, output: Any) -> None:
            for token, _ in input:
                kept.notify_at(token.delayed(token.time + 1))
            for token in kept.ready(input):
                token.discard()
            list(input.ended)

        return schedule

    def keep(stream: tw.Stream[Any]) -> None:
        kept = stream.substreams("rests", rest).unary(build, bound="soft", name="u")
        kept.collect_substream(lambda key, rows: key).probe("done")

    assert "records of keys that are used again wait in it: see below" in fail(keep, use_again)
