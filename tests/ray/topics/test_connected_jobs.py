"""Two jobs of two drivers, each a process of its own, which are connected by a topic."""

import json
import signal

import pytest

import tidewheel as tw
from tests.ray.driver_process import DriverProcess
from tests.ray.topics.relay_program import RECORDS

pytestmark = [pytest.mark.ray]

EPOCHS = 20
DEADLINE_S = 60.0


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return str(request.node.name)


def driver(address: str, what: str, topic: str) -> DriverProcess:
    """Start one of the two."""
    return DriverProcess(address, "tests.ray.topics.relay_program", what, topic, str(EPOCHS))


def sums(driver: DriverProcess) -> dict[int, int]:
    """Return what a consumer prints in the end."""
    output, errors = driver.ended(DEADLINE_S)
    assert driver.code == 0, errors
    return dict(json.loads(output.splitlines()[-1]))


def expected(first: int) -> dict[int, int]:
    """Return the sums of all epochs from the first on that was read."""
    return {epoch: sum(epoch * RECORDS + n for n in range(RECORDS)) for epoch in range(first, EPOCHS)}


@pytest.mark.long
def test_results_are_right_when_the_producer_starts_first(ray_cluster: str, topic: str) -> None:
    """Every epoch arrives whole, each once, and the end of one job is the end of the other."""
    with driver(ray_cluster, "produce", topic) as producer, driver(ray_cluster, "consume", topic) as consumer:
        producer.wait_until_it_says("sent")
        producer.tell()
        assert sums(consumer) == expected(0)
        assert producer.ended(DEADLINE_S)[0].splitlines()[-1:] == ["done"]


@pytest.mark.long
def test_the_producer_may_die_first(ray_cluster: str, topic: str) -> None:
    """The consumer ends with an error that names the topic; its name is free for another producer.

    This time the consumer starts first and nobody dies: results are right, and both jobs end.
    """
    with driver(ray_cluster, "consume", topic) as consumer, driver(ray_cluster, "produce", topic) as producer:
        producer.wait_until_it_says("sent")
        producer.kill(signal.SIGKILL)
        _, errors = consumer.ended(DEADLINE_S)
        assert consumer.code
        assert "PublisherLost" in errors
        assert f"topic {topic!r}" in errors
        with driver(ray_cluster, "consume", topic) as again, driver(ray_cluster, "produce", topic) as other:
            other.wait_until_it_says("sent")
            other.tell()
            assert sums(again) == expected(0)
            assert other.ended(DEADLINE_S)[0].splitlines()[-1:] == ["done"]


@pytest.mark.long
def test_the_consumer_may_die_first(ray_cluster: str, topic: str) -> None:
    """The producer goes on undisturbed, and whoever comes later sees whole epochs to the end."""
    with driver(ray_cluster, "produce", topic) as producer:
        with driver(ray_cluster, "consume", topic) as consumer:
            consumer.wait_until_it_says("read")
            consumer.kill(signal.SIGKILL)
        producer.wait_until_it_says("sent")
        with tw.subscribe(topic, timeout_s=DEADLINE_S) as later:
            producer.tell()
            found = {epoch.time: sum(epoch.records) for epoch in later.epochs(timeout_s=DEADLINE_S)}
        assert found
        assert found == expected(min(found))
        assert producer.ended(DEADLINE_S)[0].splitlines()[-1:] == ["done"]
        assert producer.code == 0
