"""Whoever feeds a job can fail it, and is told when it is over."""

import threading

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.list_feed import ListFeed
from tidewheel.runtime.inputs.fed_job import FedJob

DEADLINE_S = 30.0


def test_a_handle_fails_the_job(feed: ListFeed, handle: tw.types.InputHandle) -> None:
    """With the input's name and the cause; a handle that is closed has nothing to miss."""
    cause = OSError("no route")
    FedJob(handle).fail("the shop has gone", cause)
    [error] = feed.failures
    assert str(error) == "input 'numbers' cannot be fed any more: the shop has gone"
    assert error.__cause__ is cause
    handle.close()
    FedJob(handle).fail("once more")
    assert len(feed.failures) == 1


def test_those_who_feed_are_told_that_the_job_is_over(feed: ListFeed, handle: tw.types.InputHandle) -> None:
    """Once each, why it has failed, also if they ask when it is over; but for those who have taken it back."""
    told: list[tuple[str, Exception | None]] = []
    calls = {name: lambda failure, name=name: told.append((name, failure)) for name in ("kept", "forgotten", "late")}
    FedJob(handle).when_over(calls["kept"])
    FedJob(handle).when_over(calls["forgotten"])
    FedJob(handle).forget(calls["forgotten"])
    FedJob(handle).forget(calls["forgotten"])
    assert told == []
    failure = tw.JobError("an operator has failed")
    feed.end_calls.tell(failure)
    feed.end_calls.tell(None)
    FedJob(handle).when_over(calls["late"])
    assert told == [("kept", failure), ("late", failure)]


def test_a_call_that_raises_does_not_keep_others_from_being_told(
    feed: ListFeed, handle: tw.types.InputHandle, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor whoever ends the job, from ending it: it is written down."""
    told: list[Exception | None] = []

    def fails(failure: Exception | None) -> None:
        raise OSError("no telephone")

    FedJob(handle).when_over(fails)
    FedJob(handle).when_over(told.append)
    failure = tw.JobError("an operator has failed")
    feed.end_calls.tell(failure)
    FedJob(handle).when_over(fails)
    assert told == [failure]
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["no telephone"] * 2


@pytest.mark.parametrize("fails", [False, True])
def test_a_job_tells_those_who_feed_it(fails: bool) -> None:
    """Nobody has to look: it calls when it fails, with its error, and when it is stopped, with none."""
    told: list[Exception | None] = []
    flow = tw.Dataflow("fed")
    flow.input("numbers").inspect(lambda number: 1 // number).probe("done")
    job = tw.run(flow, engine="local")
    FedJob(job.input("numbers")).when_over(told.append)
    if fails:
        job.input("numbers").send([0])
        job.input("numbers").close()
        with pytest.raises(tw.JobError) as raised:
            job.wait()
        assert told == [raised.value]
    job.stop()
    assert len(told) == 1
    assert (told[0] is not None) is fails


def test_a_thread_fails_the_job_that_it_feeds() -> None:
    """Whoever waits for the job meanwhile is told so, and does not wait on."""
    flow = tw.Dataflow("fed")
    flow.input("numbers").probe("done")
    job = tw.run(flow, engine="local")
    thread = threading.Thread(target=FedJob(job.input("numbers")).fail, args=["it rains"])
    thread.start()
    thread.join(DEADLINE_S)
    with raises(tw.JobError):
        job.wait(timeout_s=DEADLINE_S)
    job.stop()
