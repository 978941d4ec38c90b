"""The catalog core."""

import pytest

from tests.kit.messages import raises
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.catalog.catalog import Catalog, Listing, TopicEvent, TopicInfo
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.topic_schema import topic_schema


def topic(name: str, job: str = "job", registration: str = "first") -> TopicInfo:
    return TopicInfo(name, job, IntegerDomain(), ("address",), registration)


def test_topics_are_found_and_listed_by_name() -> None:
    """What was registered can be looked up, and nothing else."""
    catalog = Catalog()
    for name in ("b", "a"):
        catalog.register(topic(name))
    assert catalog.lookup("a") == topic("a")
    assert catalog.lookup("c") is None
    assert catalog.topics() == [topic("a"), topic("b")]


def test_a_taken_name_is_refused_with_its_owner() -> None:
    """The error names topic and job, and the holder stays."""
    catalog = Catalog()
    catalog.register(topic("a", "old"))
    with raises(DeliveryError):
        catalog.register(topic("a", "new", "second"))
    assert catalog.lookup("a") == topic("a", "old")


def test_a_dead_holder_makes_room() -> None:
    """Who is found dead loses the name to the next."""
    catalog = Catalog()
    catalog.register(topic("a", "old"))
    catalog.register(topic("a", "new", "second"), dead=topic("a", "old"))
    assert catalog.lookup("a") == topic("a", "new", "second")


def test_an_answer_about_somebody_else_makes_no_room() -> None:
    """If the name changed hands while one asked whether the holder lives, the new holder keeps it."""
    catalog = Catalog()
    catalog.register(topic("a", "newer", "second"))
    with raises(DeliveryError):
        catalog.register(topic("a", "new", "third"), dead=topic("a", "old"))


def test_only_the_registration_itself_is_retracted() -> None:
    """A late retraction of an earlier life of the topic, even of a job of the same name, does not hit this one."""
    catalog = Catalog()
    catalog.register(topic("a", registration="second"))
    assert not catalog.retract("a", "first")
    assert not catalog.retract("b", "second")
    assert catalog.retract("a", "second")
    assert catalog.lookup("a") is None


def test_every_change_is_an_event_with_a_number() -> None:
    """What comes and what goes, with what there is to know of it; to register twice, or in vain, changes nothing."""
    catalog = Catalog()
    first, second = topic("a"), topic("a", "other", "second")
    events = catalog.register(first)
    assert catalog.register(first) == []
    with pytest.raises(DeliveryError):
        catalog.register(second)
    assert catalog.retract("a", "second") == []
    assert catalog.listing("one").published == tuple(events)
    events += catalog.register(second, dead=first, reason="it was killed")
    events += catalog.retract("a", "second", "it has ended")
    assert [(event.event, event.job, event.reason, event.version) for event in events] == [
        ("published", "job", "", 1),
        ("retracted", "job", "it was killed", 2),
        ("published", "other", "", 3),
        ("retracted", "other", "it has ended", 4),
    ]
    assert events[0] == TopicEvent("published", "a", "job", 1, repr(IntegerDomain()), "any", "", 1, "first")
    assert catalog.listing("one") == Listing("one", 4, ())


def test_an_event_says_what_was_declared() -> None:
    """A topic that has a schema says so to those who watch."""
    info = TopicInfo("a", "job", IntegerDomain(), (), "first", topic_schema(tuple[str, int]).declared)
    [event] = Catalog().register(info)
    assert event.schema == "tuple[str, int]"
