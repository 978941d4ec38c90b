"""The number of the message of each event, however often a worker goes back."""

from random import Random

import pytest

from tidewheel.pubsub.protocol.timeline import Timeline


@pytest.mark.parametrize("seed", range(50))
def test_a_count_of_events_means_the_last_message_that_is_not_void(seed: int) -> None:
    """Compared with a list of what stands."""
    random = Random(seed)
    begin = random.randrange(5)
    timeline, stands = Timeline(begin, 0), [0]
    for number in range(1, 40):
        if random.random() < 0.8:
            stands.append(number)
        else:
            del stands[random.randrange(len(stands)) + 1 :]
            timeline.go_back(begin + len(stands) - 1, number)
        assert timeline.events_at(number) == begin + len(stands) - 1, f"seed {seed}"
        for events, message in enumerate(stands):
            assert timeline.number_of(begin + events) == message, f"seed {seed}"
