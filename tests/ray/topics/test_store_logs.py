"""Topics whose logs are in an object store, on a real Ray cluster: publishers that die, jobs that start again."""

from typing import Any

import pytest

import tidewheel as tw
from tests.ray.topics.test_exactly_once import DEADLINE_S, expected, kill, publishers, publishing, read, send
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.log.opening import open_log
from tidewheel.pubsub.publishers.topic_log import identity_of, topic_log

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]


def test_nothing_is_lost_or_doubled(request: pytest.FixtureRequest, bucket: str) -> None:
    """A publisher is killed, and then a job starts again that has nothing but the store; names go on."""
    topic = str(request.node.name)
    log: Any = f"{bucket}/logs"
    with publishing(topic, log, workers=1) as job:
        numbers = job.input("numbers")
        with (
            tw.subscribe(topic, durable=tw.Durable("billing")) as billing,
            tw.subscribe(topic, start="earliest") as unnamed,
        ):
            send(numbers, range(3))
            assert read(billing, 3) == expected(range(3))
            for publisher in publishers(topic):
                kill(publisher)
            send(numbers, range(3, 6))
            assert read(billing, 2) == expected(range(3, 5))
            assert read(unnamed, 6) == expected(range(6))
        job.stop()
    with publishing(topic, log, workers=1) as job:
        with (
            tw.subscribe(topic, durable=tw.Durable("billing")) as billing,
            tw.subscribe(topic, start="earliest") as all_of_it,
        ):
            with job.input("numbers") as numbers:
                send(numbers, range(8))
            assert read(billing, 9) == expected(range(5, 8))
            assert read(all_of_it, 9) == expected(range(8))
        job.wait(timeout_s=DEADLINE_S)


def test_a_publisher_that_another_has_replaced_ends_with_its_job(request: pytest.FixtureRequest, bucket: str) -> None:
    """It says why, and writes nothing more."""
    topic = str(request.node.name)
    log: Any = f"{bucket}/logs"
    place = topic_log(topic, tw.Log(log, retention_s=60.0))
    assert place is not None
    identity = identity_of(topic, 0, 1, IntegerDomain())
    opened = []

    def publish() -> None:
        with publishing(topic, log, workers=1) as job:
            numbers = job.input("numbers")
            send(numbers, range(3))
            job.topic(topic).wait_until(3, timeout_s=DEADLINE_S)
            opened.append(open_log(place.of_partition(topic, 0), identity, b""))
            send(numbers, range(3, 6))
            numbers.close()
            job.wait(timeout_s=DEADLINE_S)

    with pytest.raises((tw.JobError, DeliveryError), match="another publisher has opened the log"):
        publish()
    (other,) = opened
    before = other.last_tick
    other.close()
    assert open_log(place.of_partition(topic, 0), identity, b"").last_tick == before
