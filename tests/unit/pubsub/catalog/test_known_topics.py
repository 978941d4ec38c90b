"""News of topics for those who watch."""

from typing import Literal

from tidewheel.pubsub.catalog.catalog import Listing, TopicEvent
from tidewheel.pubsub.catalog.known_topics import RELEARN_S, KnownTopics


def event(
    topic: str, version: int, *, registration: str = "first", what: Literal["published", "retracted"] = "published"
) -> TopicEvent:
    return TopicEvent(what, topic, "job", 1, "IntegerDomain()", "any", "", version, registration)


def gone(topic: str, version: int, registration: str = "first") -> TopicEvent:
    return event(topic, version, registration=registration, what="retracted")


def short(told: list[TopicEvent]) -> list[tuple[str, str, str]]:
    return [(one.event, one.topic, one.registration) for one in told]


def test_first_what_there_is_and_then_what_changes() -> None:
    """Changes that the listing includes are not told again, though they come after it."""
    known = KnownTopics()
    assert known.listed(Listing("one", 3, (event("a", 1), event("b", 3))), 0.0) == [event("a", 1), event("b", 3)]
    assert known.changed(event("b", 3)) == []
    assert known.changed(event("c", 4)) == [event("c", 4)]
    assert known.changed(gone("a", 5)) == [gone("a", 5)]


def test_what_came_and_went_before_the_listing_is_not_told() -> None:
    """Neither that it came nor that it went."""
    known = KnownTopics()
    assert known.listed(Listing("one", 2, ()), 0.0) == []
    assert known.changed(event("a", 1)) == []
    assert known.changed(gone("a", 2)) == []
    assert known.changed(event("b", 3)) == [event("b", 3)]


def test_after_a_gap_the_listing_says_what_has_changed() -> None:
    """The same catalog, asked again: what it has no more has gone, also where the name has a new life."""
    known = KnownTopics()
    known.listed(Listing("one", 2, (event("a", 1), event("b", 2))), 0.0)
    told = known.listed(Listing("one", 5, (event("b", 5, registration="second"),)), 1.0)
    assert short(told) == [
        ("retracted", "b", "first"),
        ("published", "b", "second"),
        ("retracted", "a", "first"),
    ]
    assert "out of reach" in told[0].reason
    assert known.deadline_s is None


def test_a_new_catalog_gets_time_to_learn_what_there_is() -> None:
    """What it learns in time has never gone; the rest has when the time is over, and only then."""
    known = KnownTopics()
    known.listed(Listing("one", 2, (event("a", 1), event("b", 2), event("c", 2))), 0.0)
    assert known.listed(Listing("two", 1, (event("a", 1),)), 100.0) == []
    assert known.deadline_s == 100.0 + RELEARN_S
    assert known.changed(event("b", 2)) == []
    assert known.expire(100.0 + RELEARN_S - 0.1) == []
    assert short(known.expire(100.0 + RELEARN_S)) == [("retracted", "c", "first")]
    assert known.expire(1000.0) == []
    assert short(known.changed(event("c", 3))) == [("published", "c", "first")]


def test_a_name_that_another_job_has_taken_meanwhile_changes_hands() -> None:
    """The former holder goes and the new one comes, in this order; what goes later of the former is no news."""
    known = KnownTopics()
    known.listed(Listing("one", 1, (event("a", 1),)), 0.0)
    known.listed(Listing("two", 0, ()), 1.0)
    assert short(known.changed(event("a", 1, registration="second"))) == [
        ("retracted", "a", "first"),
        ("published", "a", "second"),
    ]
    assert known.changed(gone("a", 2)) == []
    assert known.deadline_s is None
    assert short(known.changed(gone("a", 3, "second"))) == [("retracted", "a", "second")]
