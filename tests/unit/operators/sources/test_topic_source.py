"""What a dataflow does with the events of a topic that it reads, where the job that publishes goes back."""

from typing import Any, cast

import pytest

from tidewheel.operators.sources.topic_source import TopicSource, _act
from tidewheel.progress import Antichain, IntegerDomain
from tidewheel.pubsub import DeliveryError, RolledBack, UnknownTopic

RETURN = RolledBack(1, 7, Antichain(IntegerDomain(), [3]))


def test_a_void_batch_that_was_sent_is_an_error() -> None:
    """The dataflow cannot take it back; the error names the time and says what to do."""
    with pytest.raises(DeliveryError, match=r"at time 4 is void.*Run this one again"):
        _act(RETURN, cast(Any, None), cast(Any, None), {(4, 1): 8})


def test_what_stands_is_no_error() -> None:
    """Batches before the return, and those of other partitions."""
    sent = {(4, 1): 7, (3, 0): 9}
    _act(RETURN, cast(Any, None), cast(Any, None), sent)
    assert sent == {(4, 1): 7, (3, 0): 9}


def test_the_error_of_a_missing_topic_says_how_long_the_source_has_waited() -> None:
    """Not how long the last of its many looks took."""

    def subscribe(*, timeout: float) -> Any:
        raise UnknownTopic(f"no job published it within {timeout:g} s; there are: a", waited_s=timeout, topics=("a",))

    source = TopicSource("nubmers", IntegerDomain(), subscribe, 0.05)
    with pytest.raises(UnknownTopic, match=r"^no job published it within 0\.05 s; there are: a$") as caught:
        source._connect(lambda: False)
    assert (caught.value.topic, caught.value.waited_s, caught.value.topics) == ("nubmers", 0.05, ("a",))
