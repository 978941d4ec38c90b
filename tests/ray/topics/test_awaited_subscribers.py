"""Topics on a real Ray cluster that wait for their first subscribers, which are in processes of their own."""

import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.ray.driver_process import DriverProcess
from tests.ray.leftovers import nothing_left
from tests.ray.topics.relay_program import RECORDS
from tests.waiting import eventually
from tidewheel.pubsub.publications import ray_publication

pytestmark = [pytest.mark.ray]

EPOCHS = 6
DEADLINE_S = 60.0


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return str(request.node.name)


@pytest.fixture(params=["best_effort", pytest.param("exactly_once", marks=pytest.mark.long)])
def delivery(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The arguments of `publish` for either kind of delivery."""
    return {"log": tw.Log(tmp_path)} if request.param == "exactly_once" else {}


def publishing(topic: str, options: dict[str, Any]) -> tw.Dataflow:
    flow = tw.Dataflow(f"publishes {topic}")
    flow.input("numbers").exchange(lambda n: n).probe("sent").publish(topic, **options)
    return flow


def send_all(job: tw.types.Job) -> None:
    """Send all epochs, and wait until they have come before the topic."""
    with job.input("numbers") as numbers:
        for epoch in range(EPOCHS):
            numbers.send([epoch * RECORDS + n for n in range(RECORDS)])
            numbers.advance_to(epoch + 1)
    job.probe("sent").wait_until(EPOCHS, timeout_s=DEADLINE_S)


def wait_for_its_stop(job: tw.types.Job) -> None:
    with pytest.raises(tw.JobError):
        job.wait()


def test_another_process_that_comes_later_gets_all_epochs(
    topic: str, delivery: dict[str, Any], ray_cluster: str
) -> None:
    """Its interpreter only starts when everything was sent and the inputs are closed."""
    with tw.run(publishing(topic, {"wait_for": 1, **delivery}), workers=2) as job:
        send_all(job)
        with DriverProcess(ray_cluster, "tests.ray.topics.relay_program", "consume", topic, str(EPOCHS)) as consumer:
            output, errors = consumer.ended(DEADLINE_S)
            assert consumer.code == 0, errors
        sums = dict(json.loads(output.splitlines()[-1]))
        assert sums == {epoch: sum(epoch * RECORDS + n for n in range(RECORDS)) for epoch in range(EPOCHS)}
        job.wait(timeout_s=DEADLINE_S)


def test_it_says_what_it_waits_for_and_the_job_can_be_left(
    topic: str,
    delivery: dict[str, Any],
    ray_cluster: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line for both partitions, again and again; the job can be stopped, and leaves nothing."""
    monkeypatch.setattr(ray_publication, "AWAITED_S", 0.1)
    monkeypatch.setattr(ray_publication, "AWAITED_AGAIN_S", 0.1)
    where = f"the Ray cluster at {ray_cluster}, namespace 'tidewheel'"
    line = f"topic {topic!r} on {where} publishes nothing yet: publish(..., wait_for=2) waits for so many subscribers"

    def said() -> int:
        return sum(record.getMessage().startswith(line) for record in caplog.records)

    flow = publishing(topic, {"wait_for": 2, **delivery})
    with nothing_left(), caplog.at_level(logging.WARNING), tw.run(flow, workers=2) as job:
        send_all(job)
        with tw.subscribe(topic) as only:
            waiting = threading.Thread(target=wait_for_its_stop, args=[job])
            waiting.start()
            assert eventually(lambda: said() >= 2, DEADLINE_S)
            with pytest.raises(TimeoutError):
                next(only.epochs(timeout_s=0.1))
        began_s = time.monotonic()
        job.stop()
        waiting.join(DEADLINE_S)
    assert not waiting.is_alive()
    assert time.monotonic() - began_s < 20


@pytest.mark.long  # one that only some partitions have begun is another such log
def test_a_log_that_has_messages_awaits_nobody(topic: str, tmp_path: Path, ray_cluster: str) -> None:
    """A job that is started again goes on, as what it sends is in the log already."""
    options = {"log": tw.Log(tmp_path), "wait_for": 1}
    with tw.run(publishing(topic, options), workers=2) as job:
        send_all(job)
        with tw.subscribe(topic, durable=tw.Durable("billing", ack="manual")) as billing:
            first = next(billing.epochs(timeout_s=DEADLINE_S))
            assert (first.time, len(first.records)) == (0, RECORDS)
        job.wait(timeout_s=DEADLINE_S)
    with tw.run(publishing(topic, options), workers=2) as job:
        send_all(job)
        job.wait(timeout_s=DEADLINE_S)


def test_a_subscriber_that_comes_and_goes_before_the_first_record_holds_up_nothing(
    topic: str, delivery: dict[str, Any], ray_cluster: str
) -> None:
    """It has been awaited, so the topic goes on without it, and so does all else on that worker."""
    flow = tw.Dataflow("two outputs")
    flow.input("numbers").publish(topic, wait_for=1, **delivery)
    flow.input("others").probe("others")
    with tw.run(flow) as job:
        with tw.subscribe(topic):
            job.topic(topic).wait_for_subscribers(1, timeout_s=DEADLINE_S)
        assert eventually(lambda: not any(one["subscribers"] for one in job.topic(topic).statistics()), DEADLINE_S)
        for name in ("numbers", "others"):
            with job.input(name) as numbers:
                numbers.send([1])
        job.wait(timeout_s=DEADLINE_S)


def test_a_log_that_only_some_partitions_have_begun_awaits_nobody(topic: str, tmp_path: Path, ray_cluster: str) -> None:
    """All partitions go on: none waits for subscribers while its worker does not."""
    options: dict[str, Any] = {"log": tw.Log(tmp_path), "wait_for": 1}

    def flow() -> tw.Dataflow:
        made = tw.Dataflow(f"publishes {topic}")
        made.input("numbers").exchange(lambda _: 0).publish(topic, **options)
        return made

    with tw.run(flow(), workers=2) as job:
        with tw.subscribe(topic) as subscription:
            job.input("numbers").send([1])
            assert isinstance(
                next(event for event in subscription if isinstance(event, tw.types.Batch)), tw.types.Batch
            )
            assert sorted(one["messages"] for one in job.topic(topic).statistics()) == [0, 1]
        job.stop()
    with tw.run(flow(), workers=2) as job:
        with job.input("numbers") as numbers:
            numbers.send([1])
        job.wait(timeout_s=DEADLINE_S)
