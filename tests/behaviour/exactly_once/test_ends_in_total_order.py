"""The end of a topic in total order: no publisher goes while a reader needs its silence for the last messages."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.exactly_once.hosts import durable_actor
from tests.kit.exactly_once.relayed import Handle, Topic
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.messages.wire import LowerFrontierUpdate

HOUR_S = 3600.0


class SkewedTopic(Topic):
    """A topic of two publishers, the clock of the second one of which is ahead."""

    ahead_s = 0.0

    def _pubend(self, directory: Path, number: int, pubends: int) -> Handle:
        identity = LogIdentity("topic", number, pubends, "integers")
        return Handle(
            self.loop, lambda: durable_actor(directory, identity, clock=lambda: time.time() + number * self.ahead_s)
        )


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[SkewedTopic]:
    made = SkewedTopic(tmp_path, 2)
    for pubend in made.pubends:
        pubend.run(pubend.actor.open())
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("ahead_s", "restarts"), [(0.0, 3), (3.0, 0), pytest.param(HOUR_S, 1, marks=pytest.mark.long), (-HOUR_S, 0)]
)
def test_the_last_messages_are_read_at_once(topic: SkewedTopic, ahead_s: float, restarts: int) -> None:
    """Each publisher soon knows that all is read. A start reserves ten seconds, which nobody waits for either."""
    topic.ahead_s = ahead_s
    reader = topic.reader("reader", order="total")
    topic.publish()
    topic.read_all()
    for _ in range(restarts):
        topic.pubends[1].kill()
        topic.pubends[1].start()
        topic.publish()
        topic.read_all()
    topic.publish()
    for feed in topic.feeds:
        feed.send([LowerFrontierUpdate([(topic.published, -1)])])
    topic.read(lambda: all(pubend.run(pubend.actor.drained(0.0)) for pubend in topic.pubends))
    assert reader.has()
