"""Readers of jobs without an end, which are stopped on a real Ray cluster."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.ray.leftovers import hosts, nothing_left
from tests.ray.topics.test_exactly_once_kills import kill_actor
from tests.waiting import eventually

pytestmark = [pytest.mark.ray]

DEADLINE_S = 60.0
RECORDS = 20


def ticking(topic: str, **options: Any) -> tw.Dataflow:
    """Return a dataflow that publishes records of both workers in each epoch, without an end."""
    flow = tw.Dataflow(f"publishes {topic}")
    ticks = flow.source("clock", tw.TickSource(every_s=0.02)).flat_map(lambda _: range(RECORDS))
    ticks.exchange(lambda number: number).publish(topic, wait_for=1, **options)
    return flow


@pytest.mark.parametrize("delivery", [pytest.param("best_effort", marks=pytest.mark.long), "exactly_once"])
def test_a_reader_of_a_job_without_an_end(ray_cluster: str, delivery: str, tmp_path: Path) -> None:
    """Its loop ends after whole epochs, none of them missing. One with a log is told, as the next job goes on there."""
    topic = f"ticks, {delivery}"
    options = {"log": tw.Log(tmp_path)} if delivery == "exactly_once" else {}
    seen: list[tuple[int, int]] = []

    def read(live: tw.types.Subscription) -> None:
        seen.extend((epoch.time, len(epoch.records)) for epoch in live.epochs(timeout_s=DEADLINE_S))

    with nothing_left(), ThreadPoolExecutor(1) as pool:
        job = tw.run(ticking(topic, **options), workers=2)
        with tw.subscribe(topic) as live:
            reader = pool.submit(read, live)
            assert eventually(lambda: len(seen) >= 3, DEADLINE_S)
            job.stop()
            failure = reader.exception(DEADLINE_S)
        assert seen == [(seen[0][0] + index, RECORDS) for index in range(len(seen))]
        if delivery == "best_effort":
            assert failure is None
            assert list(live.frontier) == [seen[-1][0] + 1]
        else:
            assert isinstance(failure, tw.errors.PublisherLost)
            assert "was stopped" in str(failure)


@pytest.mark.long
def test_a_publisher_that_dies_after_its_job(ray_cluster: str, tmp_path: Path) -> None:
    """It comes back for those who have not read everything, and goes when they have."""
    flow = tw.Dataflow("dies late")
    flow.input("numbers").publish("dies late", log=tw.Log(tmp_path))
    with (
        nothing_left(),
        tw.run(flow, workers=1) as job,
        tw.subscribe("dies late", durable=tw.Durable("slow"), start="earliest") as slow,
    ):
        numbers = job.input("numbers")
        numbers.send([1, 2, 3])
        numbers.close()
        job.wait(DEADLINE_S)
        publication: Any = job.topic("dies late")
        publishers = publication._publishers
        job.stop()
        assert eventually(lambda: len(hosts("publisher")) == 1)
        kill_actor(publishers[0])
        assert [epoch.records for epoch in slow.epochs(timeout_s=DEADLINE_S)] == [[1, 2, 3]]
        slow.close()
        assert eventually(lambda: not hosts("publisher"), DEADLINE_S)
