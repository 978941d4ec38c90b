import pytest

from tidewheel.progress import ProtocolError
from tidewheel.transport.link import OrderedInbox


def test_what_comes_early_waits() -> None:
    """Items come out in the order in which they were sent, as soon as nothing before them is missing."""
    inbox: OrderedInbox[str] = OrderedInbox()
    assert inbox.accept("a", 0, 2, "third") == []
    assert inbox.accept("a", 0, 1, "second") == []
    assert inbox.waiting() == {"a": 0}
    assert inbox.accept("a", 0, 0, "first") == ["first", "second", "third"]
    assert inbox.waiting() == {}
    assert inbox.accept("a", 0, 3, "fourth") == ["fourth"]


def test_repeated_items_are_dropped_and_counted() -> None:
    """An item comes out once, whether its twin comes after it or while it waits; the first one counts."""
    inbox: OrderedInbox[str] = OrderedInbox()
    inbox.accept("a", 0, 1, "second")
    assert inbox.accept("a", 0, 1, "twin") == []
    assert inbox.accept("a", 0, 0, "first") == ["first", "second"]
    assert inbox.accept("a", 0, 0, "twin") == []
    assert inbox.accept("a", 0, 1, "twin") == []
    assert inbox.duplicates == 3


def test_senders_do_not_wait_for_each_other() -> None:
    """Each sender has an order and an incarnation of its own."""
    inbox: OrderedInbox[str] = OrderedInbox()
    assert inbox.accept("a", 1, 1, "late") == []
    assert inbox.accept("b", 2, 0, "now") == ["now"]
    assert inbox.accept(7, 0, 0, "any name") == ["any name"]
    assert inbox.waiting() == {"a": 0}


@pytest.mark.parametrize("incarnation", [0, 2])
def test_another_incarnation_is_refused(incarnation: int) -> None:
    """A sender that has restarted, or an item of its earlier life, is refused by name; the stream itself goes on."""
    inbox: OrderedInbox[str] = OrderedInbox()
    inbox.accept("worker 3", 1, 0, "first")
    with pytest.raises(ProtocolError) as refusal:
        inbox.accept("worker 3", incarnation, 1, "second")
    assert str(refusal.value).startswith(f"sender 'worker 3' was incarnation 1 and is now {incarnation}: ")
    assert inbox.accept("worker 3", 1, 1, "second") == ["second"]


def test_a_lost_item_is_an_error_and_not_a_leak() -> None:
    """When more wait than the capacity, the item before them is taken for lost, and the error names it."""
    inbox: OrderedInbox[str] = OrderedInbox(capacity=2)
    inbox.accept("a", 0, 0, "first")
    inbox.accept("a", 0, 2, "third")
    inbox.accept("a", 0, 3, "fourth")
    with pytest.raises(ProtocolError) as refusal:
        inbox.accept("a", 0, 4, "fifth")
    assert str(refusal.value) == "item 1 of sender 'a' was lost: 4 has come"
