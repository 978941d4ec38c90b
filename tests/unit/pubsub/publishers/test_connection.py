"""A worker's connection to its publisher actor, without Ray."""

import pytest

from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.messages.wire import FIRST, Generation
from tidewheel.pubsub.publishers.connection import RayConnection
from tidewheel.pubsub.publishers.sent_events import SentEvents


@pytest.mark.parametrize(("generation", "connects"), [(FIRST, False), (Generation(2, (5,)), True)])
def test_a_job_that_begins_again_says_so_at_once(
    monkeypatch: pytest.MonkeyPatch, generation: Generation, connects: bool
) -> None:
    """Subscribers wait for all partitions to do so, also for one that has nothing to publish yet."""
    made: list[SentEvents | None] = []
    monkeypatch.setattr(RayConnection, "_new_feed", lambda _, sent=None: made.append(sent))
    RayConnection("topic", 0, IntegerDomain(), None, True, generation=generation).go_on(None)
    assert [sent.position.generation for sent in made if sent is not None] == [generation] * connects
