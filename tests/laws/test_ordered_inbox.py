"""Ordered inboxes under any reordering and repetition."""

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.runtime.inboxes import missing
from tests.laws.strategies import law_settings
from tidewheel.progress import ProtocolError
from tidewheel.runtime.worker.ordered_inbox import OrderedInbox


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]]]:
    """How many items each sender sent, and (sender, sequence) in an order of arrival, every one at least once."""
    sent = draw(st.lists(st.integers(0, 6), min_size=1, max_size=3))
    items = [(sender, sequence) for sender, count in enumerate(sent) for sequence in range(count)]
    repeated = draw(st.lists(st.sampled_from(items), max_size=8)) if items else []
    return sent, draw(st.permutations([*items, *repeated]))


@law_settings(150)
@given(deliveries())
def test_each_sender_is_heard_in_order_and_once(arrivals: tuple[list[int], list[tuple[int, int]]]) -> None:
    """However items are reordered and repeated, each sender's come out once, in order, and as soon as they can."""
    sent, order = arrivals
    inbox: OrderedInbox[tuple[int, int]] = OrderedInbox()
    heard: dict[int, list[int]] = {sender: [] for sender in range(len(sent))}
    arrived: set[tuple[int, int]] = set()
    for sender, sequence in order:
        ready = inbox.accept(sender, 40 + sender, sequence, (sender, sequence))
        assert all(origin == sender for origin, _ in ready)
        arrived.add((sender, sequence))
        heard[sender].extend(number for _, number in ready)
        complete = next(number for number in range(99) if (sender, number) not in arrived)
        assert heard[sender] == list(range(complete))
        gaps = {
            origin: len(heard[origin])
            for origin, numbers in groupby(sorted(arrived), key=lambda item: item[0])
            if max(number for _, number in numbers) >= len(heard[origin])
        }
        assert missing(inbox) == gaps
    assert heard == {sender: list(range(count)) for sender, count in enumerate(sent)}
    assert missing(inbox) == {}
    assert inbox.duplicates == len(order) - len(arrived)


@law_settings(50)
@given(
    arrivals=deliveries().filter(lambda arrivals: bool(arrivals[1])),
    difference=st.integers(-3, 3).filter(bool),
    data=st.data(),
)
def test_another_incarnation_is_refused(
    arrivals: tuple[list[int], list[tuple[int, int]]], difference: int, data: st.DataObject
) -> None:
    """An item of another life of its sender is refused whenever it comes, and takes no part in anything."""
    _, order = arrivals
    inbox: OrderedInbox[tuple[int, int]] = OrderedInbox()
    undisturbed: OrderedInbox[tuple[int, int]] = OrderedInbox()
    for sender, sequence in order:
        ready = inbox.accept(sender, 7, sequence, (sender, sequence))
        assert ready == undisturbed.accept(sender, 7, sequence, (sender, sequence))
        with pytest.raises(ProtocolError, match=f"sender {sender} was incarnation 7 and is now {7 + difference}"):
            inbox.accept(sender, 7 + difference, data.draw(st.integers(0, 7)), (-1, -1))
    assert missing(inbox) == missing(undisturbed)
    assert inbox.duplicates == undisturbed.duplicates


@law_settings(50)
@given(capacity=st.integers(0, 5), data=st.data())
def test_a_lost_item_is_noticed(capacity: int, data: st.DataObject) -> None:
    """As many items as the capacity may wait behind a missing one; the next is refused, repeated ones do not count."""
    inbox: OrderedInbox[int] = OrderedInbox(capacity)
    early = data.draw(st.permutations(range(1, capacity + 2)))
    for sequence in early[:-1]:
        assert inbox.accept("sender", 0, sequence, sequence) == []
        assert inbox.accept("sender", 0, sequence, sequence) == []
    with pytest.raises(ProtocolError, match=f"item 0 of sender 'sender' was lost: {early[-1]} has come"):
        inbox.accept("sender", 0, early[-1], early[-1])
