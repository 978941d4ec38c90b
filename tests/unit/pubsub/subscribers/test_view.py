"""Tests of views: rates, and how records become views."""

import pytest

from tests.kit.messages import raises
from tests.kit.telemetry.documents import BEGAN_AT, document, operator, views
from tidewheel.display.merge_patch import patch
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.subscribers.view import Follower, View


def test_a_rate_is_growth_per_second() -> None:
    """The seconds are those of the job, not those between two records."""
    first, second = views(
        document(operators={"1": operator("map", records_in=100)}),
        document(at=BEGAN_AT + 2.0, operators={"1": operator("map", records_in=160)}),
    )
    assert (first.seconds, second.seconds) == (0.0, 2.0)
    assert first.rate("operators", "1", "records_in") is None
    assert second.rate("operators", "1", "records_in") == 30.0


@pytest.mark.parametrize(
    ("before", "after"),
    [(7, 3), ("7", 8), (True, 2), (None, 7), (7, None)],
    ids=["went back", "text", "truth", "new", "gone"],
)
def test_there_is_no_rate_of_what_did_not_count_on(before: object, after: object) -> None:
    """A job that goes back to a snapshot has no rate for one view, not a negative one."""
    made = views(*({"at": at, "count": count} for at, count in ((1.0, before), (2.0, after))))
    assert made[1].rate("count") is None


def test_there_is_no_rate_within_no_time() -> None:
    """Two documents of the same moment divide by nothing."""
    assert View({"at": 1.0, "n": 2}, {"at": 1.0, "n": 1}).rate("n") is None


@pytest.mark.parametrize("state", ["paused", "running", "going back", "complete", "failed", "stopped"])
def test_the_end_is_seen(state: str) -> None:
    """A reader knows which of the states is the last one."""
    assert View(document(state=state)).has_ended is (state in {"complete", "failed", "stopped"})


def test_patches_before_a_whole_document_are_ignored() -> None:
    """A subscriber that comes late may receive patches first; they say nothing without their document."""
    follower = Follower()
    assert follower.receive(4, {"whole": False, "document": {"at": 1.0}}) is None
    assert follower.receive(5, {"whole": True, "document": {"at": 2.0, "a": {"b": 1}}}) == View(
        {"at": 2.0, "a": {"b": 1}}
    )
    assert follower.receive(6, {"whole": False, "document": {"at": 3.0, "a": {"b": None}}}) == View(
        {"at": 3.0, "a": {}}, {"at": 2.0, "a": {"b": 1}}
    )


def test_a_gap_waits_for_a_whole_document() -> None:
    """A patch that does not follow the document that is known is not merged into it."""
    documents = [document(at=BEGAN_AT + at, name=f"job-{at}") for at in range(4)]
    follower = Follower()
    follower.receive(0, {"whole": True, "document": documents[0]})
    assert follower.receive(2, {"whole": False, "document": patch(documents[1], documents[2])}) is None
    assert follower.receive(3, {"whole": False, "document": patch(documents[2], documents[3])}) is None
    found = follower.receive(4, {"whole": True, "document": documents[3]})
    assert found is not None
    assert (found.document, found.before) == (documents[3], documents[0])


@pytest.mark.parametrize("record", [7, {}, {"whole": True}, {"whole": True, "document": []}])
def test_a_record_of_something_else_is_refused(record: object) -> None:
    """The error says what has come."""
    with raises(ProtocolError):
        Follower().receive(0, record)  # type: ignore[arg-type]
