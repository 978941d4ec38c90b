"""The owner of a topic, as its log has it."""

from pathlib import Path

import pytest

from tidewheel.progress import IntegerDomain, ProductDomain
from tidewheel.pubsub.publishers.topic_log import TopicLog, identity_of


def test_the_domain_in_a_log_stays_as_it_is() -> None:
    """A log of another domain is refused, so a shorter text for people must not reach logs that exist."""
    assert identity_of("t", 0, 1, IntegerDomain()).domain == "IntegerDomain(maximum=9223372036854775807)"
    assert identity_of("t", 0, 1, ProductDomain(IntegerDomain(), IntegerDomain(3))).domain == (
        "ProductDomain(outer=IntegerDomain(maximum=9223372036854775807), inner=IntegerDomain(maximum=3))"
    )


@pytest.mark.parametrize("topic", ["a" * 200, "今" * 200, "\N{WATER WAVE}" * 200, "." * 200, "/" * 200, "今" * 29])
def test_a_topic_of_any_name_has_a_directory(topic: str, tmp_path: Path) -> None:
    """A file system takes 255 bytes, and a name of 200 characters may have 2,400 in its place."""
    log = TopicLog(str(tmp_path))
    Path(log.of_partition(topic, 0)).mkdir(parents=True)
    assert [one.name for one in tmp_path.iterdir()] == [Path(log.of_topic(topic)).name]
    assert log.of_topic(topic) != log.of_topic(topic[:-1] + "!")
    in_store = TopicLog("s3://bucket/logs").of_topic(topic)
    assert len(in_store) < 800
    assert in_store != TopicLog("s3://bucket/logs").of_topic(topic[:-1] + "!")


def test_the_directory_of_a_topic_stays_as_it_is() -> None:
    """A log that exists is found again."""
    log, store = TopicLog("/logs"), TopicLog("s3://bucket/logs")
    assert log.of_topic("bills of/today") == "/logs/bills%20of%2Ftoday"
    assert log.of_topic("今" * 28) == "/logs/" + "%E4%BB%8A" * 28
    beginning = "%E4%BB%8A" * 15
    assert log.of_topic("今" * 29) == (
        f"/logs/{beginning}=0d009ad00e1916596dd2264183157ace84c81c261f58aec73c4674704f6032b0"
    )
    assert store.of_topic("今" * 29) == "s3://bucket/logs/" + "%E4%BB%8A" * 29
    assert store.of_topic("今" * 200) == (
        f"s3://bucket/logs/{beginning}=9b47c6036a79ecb3f83cb1861cf9c0ae265f0542bb07b4bae670d12a6523129c"
    )
