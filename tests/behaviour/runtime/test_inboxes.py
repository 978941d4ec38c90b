"""Inboxes of local jobs: who has a job by name sends records to it, and keys count once over snapshots and restarts."""

import threading
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.waiting import eventually

WITHIN_S = 20.0


def describe(records: Any = None, **settings: Any) -> tw.Dataflow:
    flow = tw.Dataflow("fraud")
    flow.inbox("payments", records, **settings).probe("done").capture("payments")
    return flow


def received(job: tw.types.Job) -> list[Any]:
    """Let the job go on; return the records so far."""
    at = job.probe("done").frontier
    for epoch in at:
        with_more = epoch + 1
        try:
            job.probe("done").wait_until(with_more, timeout_s=0.05)
        except TimeoutError:
            break
    return sorted(record for captured in job.captured("payments") for record in captured.batch)


def test_records_of_a_key_count_once_and_others_each_time() -> None:
    """Whatever the worker, and in whatever epoch they come."""
    with tw.run(describe(int), workers=3, engine="local") as job:
        payments = tw.job(job.name).input("payments")
        for _ in range(3):
            for key in range(10):
                payments.send([key], key=f"order {key}")
            payments.send([100, 101])
        expected = [*range(10), *[100, 101] * 3]
        assert eventually(lambda: received(job) == sorted(expected))
        job.stop()


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_keys_count_once_over_a_restart(tmp_path: Path, workers: int) -> None:
    """The snapshot has the keys and their records; what came after it is gone, and is sent again."""
    snapshots = tw.Snapshots(tmp_path, every_s=3600)
    with tw.run(describe(int), workers=2, engine="local", snapshots=snapshots) as job:
        payments = tw.job("fraud").input("payments")
        before = [payments.send([key], key=str(key)) for key in range(20)]
        assert eventually(lambda: len(received(job)) == 20)
        assert not any(sent.is_saved() for sent in before)
        job.snapshot(WITHIN_S)
        assert eventually(lambda: bool(received(job)) and all(sent.is_saved() for sent in before))
        late = [payments.send([key], key=str(key)) for key in range(20, 30)]
        assert eventually(lambda: len(received(job)) == 30)
        job.stop()
    for sent in (*before, *late):
        with pytest.raises(tw.JobRolledBack):
            sent.is_saved()
    with tw.run(describe(int), workers=workers, engine="local", snapshots=snapshots) as job:
        payments = tw.job("fraud").input("payments")
        for key in range(30):
            payments.send([key], key=str(key))
        payments.send([1000])
        assert eventually(lambda: 1000 in received(job))
        assert received(job) == [*range(30), 1000], "the capture has what it had in the snapshot"
        job.stop()


def test_without_snapshots_records_are_saved_once_they_were_processed() -> None:
    """So who waits for that waits for no snapshot."""
    with tw.run(describe(int), engine="local") as job:
        sent = tw.job("fraud").input("payments").send([1])
        assert not sent.is_saved()
        assert eventually(lambda: received(job) == [1] and sent.is_saved())
        sent.wait_until_saved(timeout_s=0)
        with raises(TimeoutError):
            tw.job("fraud").input("payments").send([2]).wait_until_saved(timeout_s=0)
        job.stop()


def test_wrong_names_are_refused_with_those_there_are() -> None:
    """Of jobs and inputs; an input that handles feed is told apart."""
    flow = describe()
    flow.input("orders").probe("orders")
    with tw.run(flow, engine="local") as job:
        found = tw.job("fraud")
        for name in ("payment", "orders"):
            with raises(tw.JobError):
                found.input(name)
        with raises(tw.JobError):
            found.lookup("rates", "EUR")
        job.stop()


def test_two_jobs_of_a_dataflow_have_to_be_told_apart() -> None:
    """By their own names."""
    with tw.run(describe(), engine="local") as one, tw.run(describe(), engine="local") as other:
        with pytest.raises(tw.JobError, match="fraud"):
            tw.job("fraud", timeout_s=0)
        for job in (one, other):
            assert tw.job(job.name).name == job.name
            job.stop()


@pytest.mark.parametrize("wrong", [["x"], 5, "text"])
def test_wrong_records_are_refused_and_nothing_is_sent(wrong: Any) -> None:
    """By their type, before the job has any of them."""
    with tw.run(describe(int), engine="local") as job:
        payments = tw.job("fraud").input("payments")
        with raises(TypeError):
            payments.send(wrong)
        payments.send([1])
        assert eventually(lambda: received(job) == [1])
        job.stop()


@pytest.mark.parametrize("key", ["", "x" * 201, "a\nb", 5])
def test_wrong_keys_are_refused(key: Any) -> None:
    """A key is a short text, as it goes into headers and snapshots."""
    with tw.run(describe(int), engine="local") as job:
        with raises(TypeError):
            tw.job("fraud").input("payments").send([1], key=key)
        job.stop()


def test_a_full_inbox_refuses_after_the_time_and_takes_more_once_it_was_read() -> None:
    """Nothing is lost of what was sent, and nothing has come of what was refused."""
    with tw.run(describe(bytes, capacity_bytes=100_000), engine="local", paused=True) as job:
        payments = tw.job("fraud").input("payments")
        sent = 0
        while sent < 1000:
            try:
                payments.send([bytes(20_000)], timeout_s=0)
            except tw.errors.WouldBlock:
                break
            sent += 1
        assert 2 <= sent < 10
        with raises(tw.errors.WouldBlock):
            payments.send([bytes(20_000)], timeout_s=0.1)
        waiting = threading.Thread(target=payments.send, args=[[b"later"]], kwargs={"timeout_s": WITHIN_S})
        waiting.start()
        job.start()
        assert eventually(lambda: len(received(job)) == sent + 1)
        waiting.join(WITHIN_S)
        job.stop()


def test_who_waits_for_room_learns_that_the_job_has_ended() -> None:
    """At once, with an error that says so."""
    with tw.run(describe(bytes, capacity_bytes=1), engine="local", paused=True) as job:
        payments = tw.job("fraud").input("payments")
        caught: list[BaseException] = []

        def send() -> None:
            try:
                while True:
                    payments.send([b"more"], timeout_s=None)
            except BaseException as error:  # noqa: BLE001 - the test looks at it
                caught.append(error)

        waiting = threading.Thread(target=send)
        waiting.start()
        job.stop()
        waiting.join(WITHIN_S)
    [error] = caught
    assert isinstance(error, tw.JobError)
