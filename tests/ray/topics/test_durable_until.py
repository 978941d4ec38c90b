"""Waiting, where a topic is published, until a time is durable."""

import os
import re
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import ray

import tidewheel as tw
from tidewheel.pubsub.catalog.catalog_actor import ask_catalog
from tidewheel.runtime.inputs.fed_job import FedJob

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0


def pid_of(actor: Any) -> int:
    return int(ray.get(actor.__ray_call__.remote(lambda _: os.getpid()), timeout=DEADLINE_S))


@pytest.mark.long
def test_what_was_waited_for_is_in_the_log(tmp_path: Path) -> None:
    """Not before the input has passed it, at both partitions; a publisher that is started again knows what it has."""
    flow = tw.Dataflow("durable")
    flow.input("numbers").publish("durable", log=tw.Log(tmp_path))
    with tw.run(flow, workers=2) as job:
        topic, numbers = job.topic("durable"), job.input("numbers")
        numbers.send([1])
        topic.wait_until(0, DEADLINE_S)
        with pytest.raises(TimeoutError, match=r"topic 'durable': not all before 1 was durable within 0\.3 s"):
            topic.wait_until(1, 0.3)
        numbers.advance_to(3)
        topic.wait_until(3, DEADLINE_S)
        before = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
        assert before > 0
        publisher = ask_catalog("lookup", "durable", DEADLINE_S).partitions[0]
        os.kill(pid_of(publisher), signal.SIGKILL)
        topic.wait_until(3, DEADLINE_S)
        numbers.send([2])
        numbers.close()
        topic.wait_until(4, DEADLINE_S)
        with tw.subscribe("durable", start="earliest", durable=tw.Durable("reader")) as subscription:
            assert [(epoch.time, epoch.records) for epoch in subscription.epochs(timeout_s=DEADLINE_S)] == [
                (0, [1]),
                (3, [2]),
            ]
        job.wait(DEADLINE_S)


@pytest.mark.parametrize("engine", ["ray", "local"])
def test_a_topic_without_a_log_is_never_durable(engine: Any) -> None:
    """So there is nothing to wait for, and that is an error at once."""
    flow = tw.Dataflow("fleeting")
    flow.input("numbers").publish("fleeting")
    with tw.run(flow, engine=engine) as job:
        with pytest.raises(tw.DeliveryError, match="topic 'fleeting' keeps nothing, so there is no waiting until 1"):
            job.topic("fleeting").wait_until(1, DEADLINE_S)
        job.input("numbers").close()
        job.wait(DEADLINE_S)


@pytest.mark.parametrize("fails", [True, pytest.param(False, marks=pytest.mark.long)])
def test_who_waits_hears_that_the_job_is_over(tmp_path: Path, fails: bool) -> None:
    """Soon, and why."""
    flow = tw.Dataflow("cut short")
    flow.input("numbers").publish("cut", log=tw.Log(tmp_path))
    job = tw.run(flow)
    topic, numbers = job.topic("cut"), job.input("numbers")
    numbers.advance_to(2)
    topic.wait_until(2, DEADLINE_S)
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            topic.wait_until(3, 10 * DEADLINE_S)
        except tw.DeliveryError as error:
            errors.append(error)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    if fails:
        FedJob(numbers).fail("it rains")
    job.stop()
    waiting.join(DEADLINE_S)
    reason = ".*it rains" if fails else "job 'cut short-.*' was stopped"
    assert re.search(f"not all before 3 is known to be durable, and no more gets so: {reason}", str(errors[0]))


def test_all_is_durable_of_a_topic_that_has_ended(tmp_path: Path) -> None:
    """Also when its publishers have gone with the job."""
    flow = tw.Dataflow("whole")
    flow.input("numbers").publish("whole", log=tw.Log(tmp_path))
    with tw.run(flow) as job:
        topic = job.topic("whole")
        job.input("numbers").send([1])
        job.input("numbers").close()
        job.wait(DEADLINE_S)
    topic.wait_until(7, 0)
