"""The standing of a job, in one line."""

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import flow_of
from tests.kit.runtime.stuck_flows import deploy, hoarding, straight
from tidewheel.progress import Antichain, IntegerDomain
from tidewheel.runtime.explaining.standing import Standing, line_of


def at(second: float, epoch: int | None, records: int = 0, newest: int | None = None, waits: str = "") -> Standing:
    """Return a standing with one probe at an epoch; None is its end."""
    frontier = Antichain(IntegerDomain(), [] if epoch is None else [epoch])
    return Standing(second, records, {"done": frontier}, newest, waits)


def test_a_job_with_inputs_knows_how_far_it_has_to_go() -> None:
    """The epoch is the earliest that is not complete, the newest is that of the input; records are those sent."""
    with deploy(straight()) as job:
        numbers = job.input("numbers")
        for epoch in range(8):
            numbers.send([epoch] * 10)
            numbers.advance_to(epoch + 1)
        job.probe("done").wait_until(8, 10.0)
        now = job._standing(None)
        assert (now.epoch, now.newest, now.records, now.waits_for) == (8, 8, 80, "")
        numbers.close()
        job.wait(10.0)
        ended = job._standing(now)
        assert (ended.epoch, ended.records, ended.waits_for) == (None, 80, "")


def test_a_source_has_no_end_that_is_known() -> None:
    """So there is no bar, which would be full all the time."""
    flow = tw.Dataflow("endless")
    flow.source("words", tw.IterableSource([[(3, ["tide"])]])).probe("done")
    with deploy(flow) as job:
        assert job._standing(None).newest is None
        job.wait(10.0)
        assert job._standing(None).records == 1


def test_it_says_what_it_waits_for_once_nothing_moves() -> None:
    """The second look at a frontier that has not moved asks for an explanation, the first one does not."""
    kept: list[tw.TimestampToken] = []
    with deploy(flow_of(hoarding(kept))) as job:
        job.input("numbers").send([1])
        job.input("numbers").close()
        with raises(tw.JobError):
            job.wait(10.0)
        first = job._standing(None)
        assert first.waits_for == ""
        second = job._standing(first)
        assert "holds 1 token for time 0 on worker" in second.waits_for
        for token in kept:
            token.discard()
        job.wait(10.0)
        assert job._standing(second).waits_for == ""


@pytest.mark.parametrize(
    ("first", "before", "now", "line"),
    [
        (at(0, 0), None, at(0, 0), "words: epoch 0, 0 s"),
        (at(0, 0), at(3, 2, 100), at(4, 3, 350), "words: epoch 3, 350 records, 250/s, 4 s"),
        (at(0, 0), None, at(70, 5, newest=9), "words: [##########..........] epoch 5 of 9, 1 min"),
        (at(0, 4), None, at(1, 4, newest=4), "words: [....................] epoch 4 of 4, 1 s"),
        (at(0, 7), None, at(1, 7, newest=5), "words: epoch 7, 1 s"),
        (at(0, 0), None, at(9, None, 12_000), "words: 12.0k records, 9 s"),
        (at(0, 0), at(8, 1, 10), at(9, 1, 10, waits="worker 1"), "words: epoch 1, 10 records, 9 s; waits: worker 1"),
    ],
)
def test_a_line_has_what_is_known(first: Standing, before: Standing | None, now: Standing, line: str) -> None:
    """A bar where the end is known, a rate where records have come, and no more."""
    assert line_of("words", first, before, now) == line


def test_names_cannot_steer_the_terminal() -> None:
    """Neither that of the job nor that of an operator."""
    assert line_of("a\nb", at(0, 0), None, at(1, 0, waits="\x1b[2J")).isprintable()
