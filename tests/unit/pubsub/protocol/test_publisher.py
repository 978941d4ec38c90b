"""The publisher core."""

import pickle
from typing import cast

import pytest

from tests.kit.messages import raises
from tests.kit.pubsub.numbered import fetched, taken
from tidewheel.progress import IntegerDomain, ProtocolError
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.delivery_messages import KnowledgeMessage
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions, Where
from tidewheel.pubsub.messages.encoded_message import decode, encode, encode_batch
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    EpochsDropped,
    Failed,
    FeedEvent,
    Generation,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Message,
    Numbered,
    PartitionEnded,
    Rejected,
    WorkerPosition,
)
from tidewheel.pubsub.protocol.publisher import NUMBERS_OF_A_LIFE, Publisher


def data(time: int, size: int = 10) -> DataMessage:
    return DataMessage(time, b"x" * size, "pickle", 1)


def batch(time: int, *records: object) -> DataMessage:
    return encode_batch(time, list(records))


def is_large(record: int) -> bool:
    return record > 1


def messages(publisher: Publisher, subscriber: str) -> list[Message]:
    return [numbered.message for numbered in fetched(publisher, subscriber, -1)]


@pytest.fixture
def publisher() -> Publisher:
    return Publisher(IntegerDomain(), capacity_bytes=1000)


def test_the_snapshot_comes_first_and_then_everything_in_order(publisher: Publisher) -> None:
    """A late subscriber gets both frontiers of that moment, and from there on all messages, numbered by one."""
    publisher.feed([data(4), data(2), LowerFrontierUpdate([(0, -1), (1, 1)])])
    publisher.subscribe("s")
    publisher.feed([data(5), LowerFrontierUpdate([(1, -1), (3, 1)])])
    assert fetched(publisher, "s", -1) == [
        Numbered(3, InitialFrontierSnapshot([1], [4])),
        Numbered(4, data(5)),
        Numbered(5, LowerFrontierUpdate([(1, -1), (3, 1)])),
    ]


def test_a_new_publisher_has_one_least_time_and_no_upper_frontier(publisher: Publisher) -> None:
    """That is the initial capability upstream."""
    publisher.subscribe("s")
    assert fetched(publisher, "s", -1) == [Numbered(0, InitialFrontierSnapshot([0], []))]


def test_an_empty_lower_frontier_ends_the_partition(publisher: Publisher) -> None:
    """The publisher derives the end itself, after the update that empties the frontier."""
    publisher.subscribe("s")
    publisher.frontier([(0, -1)])
    assert messages(publisher, "s")[1:] == [LowerFrontierUpdate([(0, -1)]), PartitionEnded()]
    assert publisher.is_finished
    assert not publisher.has_failed


def test_who_comes_after_the_end_is_told_that_it_is_over(publisher: Publisher) -> None:
    """Such a subscriber gets an empty lower frontier and the end, without a gap in the numbers."""
    publisher.data(data(0))
    publisher.frontier([(0, -1)])
    publisher.subscribe("s")
    assert fetched(publisher, "s", -1) == [Numbered(2, InitialFrontierSnapshot([], [])), Numbered(3, PartitionEnded())]


def test_a_failure_reaches_everybody_and_those_who_come_after_it(publisher: Publisher) -> None:
    """No subscriber is left in silence; what upstream still sends is dropped."""
    publisher.subscribe("early")
    publisher.fail("it broke")
    publisher.fail("again")
    publisher.feed([data(0), LowerFrontierUpdate([(0, -1)])])
    publisher.subscribe("late")
    assert messages(publisher, "early")[1:] == messages(publisher, "late")[1:] == [Failed("it broke")]
    assert publisher.has_failed


def test_failing_after_the_end_changes_nothing(publisher: Publisher) -> None:
    """A topic that has ended has ended."""
    publisher.frontier([(0, -1)])
    publisher.fail("too late")
    assert publisher.is_finished
    assert not publisher.has_failed


def test_removing_a_subscriber_leaves_the_others_alone(publisher: Publisher) -> None:
    """Whichever of three leaves, early or late by name, the two others go on receiving."""
    for leaver in ("a", "b", "c"):
        three = Publisher(IntegerDomain())
        for name in ("a", "b", "c"):
            three.subscribe(name)
        three.unsubscribe(leaver)
        three.unsubscribe(leaver)
        three.data(data(0))
        for name in {"a", "b", "c"} - {leaver}:
            assert messages(three, name)[1:] == [data(0)]
        assert isinstance(messages(three, leaver)[0], Rejected)
        assert three.subscribers == 2


def test_overflow_disconnects_the_slow_one_with_a_reason(publisher: Publisher) -> None:
    """Its queue is freed and it learns why; who acknowledged in time goes on."""
    publisher.subscribe("slow")
    publisher.subscribe("quick")
    for time in range(20):
        publisher.data(data(time, size=200))
        fetched(publisher, "quick", fetched(publisher, "quick", -1)[-1].sequence)
    [told] = fetched(publisher, "slow", -1)
    assert isinstance(told.message, Rejected)
    assert "1000 bytes" in told.message.reason
    assert 'slow="drop_epochs"' in told.message.reason
    statistics = publisher.statistics()
    assert (statistics.overflows, statistics.subscribers, statistics.records) == (1, 1, 20)
    assert statistics.queued_bytes < 1000


def test_it_is_drained_once_everybody_has_acknowledged_the_end(publisher: Publisher) -> None:
    """Not before the end, and not while anybody has anything to fetch."""
    publisher.subscribe("s")
    fetched(publisher, "s", 0)
    assert not publisher.is_drained_but_for(None)
    publisher.frontier([(0, -1)])
    last = fetched(publisher, "s", 0)[-1].sequence
    assert not publisher.is_drained_but_for(None)
    fetched(publisher, "s", last)
    assert publisher.is_drained_but_for(None)


def test_taking_is_fetching_and_acknowledging(publisher: Publisher) -> None:
    """What was taken is gone, and who is not subscribed is told so."""
    publisher.subscribe("s")
    publisher.data(data(0))
    assert [type(numbered.message) for numbered in taken(publisher, "s")] == [InitialFrontierSnapshot, DataMessage]
    assert taken(publisher, "s") == []
    assert [type(numbered.message) for numbered in taken(publisher, "nobody")] == [Rejected]


def test_impossible_events_are_refused(publisher: Publisher) -> None:
    """Data behind the frontier, a frontier that moves back, and two subscribers of one name are errors."""
    publisher.frontier([(0, -1), (3, 1)])
    with raises(ProtocolError):
        publisher.data(data(2))
    with raises(ProtocolError):
        publisher.frontier([(1, 1)])
    publisher.subscribe("s")
    with raises(ProtocolError):
        publisher.subscribe("s")


def test_a_condition_decides_what_is_queued(publisher: Publisher) -> None:
    """Nothing wanted is nothing queued, all wanted is the same message; moves of the frontier come anyway."""
    publisher.subscribe("s", DeliveryOptions(Where(is_large)))
    everything, nothing, some = batch(0, 2, 3), batch(0, 0, 1), batch(0, 1, 2)
    publisher.feed([everything, nothing, some, LowerFrontierUpdate([(0, -1), (1, 1)])])
    found = fetched(publisher, "s", -1)
    assert [(one.sequence, one.skipped) for one in found] == [(0, 0), (1, 0), (3, 1), (4, 0)]
    assert isinstance(found[1].message, DataMessage)
    assert found[1].message.payload is everything.payload
    assert found[2].message == batch(0, 2)
    assert found[3].message == LowerFrontierUpdate([(0, -1), (1, 1)])


def test_what_a_worker_sends_is_passed_on_as_it_came(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its head and its payload are the very objects for each subscriber, and nothing is pickled or unpickled."""
    sent = [encode(batch(0, 1, 2), 5), encode(LowerFrontierUpdate([(0, -1), (1, 1)]))]
    for name in ("one", "other"):
        publisher.subscribe(name)
        publisher.take(name)
    with monkeypatch.context() as patched:
        for name in ("loads", "dumps"):
            patched.setattr(pickle, name, None)
        publisher.feed([cast(FeedEvent, decode(message)) for message in sent])
        told = [publisher.take(name) for name in ("one", "other")]
    for one, other in zip(*told, strict=True):
        assert one is other
    passed = [message for one in told[0] if isinstance(one, KnowledgeMessage) for _, message in one.data]
    for now, before in zip(passed, sent, strict=True):
        assert now.head is before.head
        assert now.payload == before.payload
    assert passed[0].payload is sent[0].payload


def test_equal_conditions_are_evaluated_once(publisher: Publisher) -> None:
    """However many subscribers have one, also if each has sent its own: they share the result."""
    calls: list[str] = []

    class Counted(Where):
        def of(self, message: DataMessage) -> DataMessage | None:
            calls.append("of")
            return super().of(message)

    for number in range(5):
        publisher.subscribe(f"s{number}", DeliveryOptions(Counted(is_large)))
    publisher.subscribe("other", DeliveryOptions(Counted(bool)))
    publisher.data(batch(0, 1, 2))
    assert len(calls) == 2
    results = [messages(publisher, f"s{number}")[1] for number in range(5)]
    assert results == [batch(0, 2)] * 5
    shared = {id(publisher.fetch(f"s{number}", -1)[1]) for number in range(5)}
    assert len(shared) == 1


def test_a_condition_that_fails_cuts_off_those_who_asked_for_it_alone(publisher: Publisher) -> None:
    """Both that have it are told why; whoever else is there notices nothing, and the worker neither."""
    for name, options in {"a": Where(is_large), "b": Where(is_large), "c": Where(str), "d": None}.items():
        publisher.subscribe(name, DeliveryOptions(options))
    publisher.feed([batch(0, 3), batch(0, "three"), batch(0, 4)])
    for name in "ab":
        [told] = messages(publisher, name)
        assert isinstance(told, Rejected)
        assert "where= failed for a batch at time 0" in told.reason
        assert "for record 'three'" in told.reason
    for name in "cd":
        assert messages(publisher, name)[1:] == [batch(0, 3), batch(0, "three"), batch(0, 4)]
    assert publisher.subscribers == 2
    assert publisher.statistics().overflows == 0


def test_falling_behind_may_cost_epochs_in_place_of_the_subscription(publisher: Publisher) -> None:
    """The oldest go, and it is told which; one that keeps up, and one that did not ask for it, are as before."""
    publisher.subscribe("drops", DeliveryOptions(slow="drop_epochs"))
    publisher.subscribe("slow")
    publisher.subscribe("quick")
    seen = 0
    for time in range(10):
        publisher.feed([data(time, size=200), LowerFrontierUpdate([(time, -1), (time + 1, 1)])])
        seen += sum(isinstance(one.message, DataMessage) for one in taken(publisher, "quick"))
    assert seen == 10
    assert isinstance(messages(publisher, "slow")[0], Rejected)
    found = messages(publisher, "drops")
    dropped = [time for message in found if isinstance(message, EpochsDropped) for time in message.times]
    kept = [message.time for message in found if isinstance(message, DataMessage)]
    assert dropped + kept == list(range(10))
    assert 0 < len(dropped) < 10
    statistics = publisher.statistics()
    assert (statistics.overflows, statistics.epochs_dropped, statistics.subscribers) == (1, len(dropped), 2)
    publisher.unsubscribe("drops")
    assert publisher.statistics().epochs_dropped == len(dropped)


def test_nothing_is_left_of_a_subscriber_that_has_gone(publisher: Publisher) -> None:
    """Its queue and its condition go with it, and the name is free again, for other options."""
    publisher.subscribe("s", DeliveryOptions(Where(is_large)))
    publisher.unsubscribe("s")
    publisher.subscribe("s")
    publisher.data(batch(0, 0))
    assert messages(publisher, "s")[1:] == [batch(0, 0)]


def test_news_is_what_there_is_to_fetch(publisher: Publisher) -> None:
    """As long as something waits, and for one that is not subscribed, who will be told so."""
    assert publisher.has_news("s")
    publisher.subscribe("s", DeliveryOptions(Where(is_large)))
    assert publisher.has_news("s")
    taken(publisher, "s")
    publisher.data(batch(0, 0))
    assert not publisher.has_news("s")
    publisher.data(batch(0, 2))
    assert publisher.has_news("s")


class Holding:
    """A publisher of which subscribers that may hold it for so many seconds do so, unless they let go."""

    def __init__(self, **limits_s: float) -> None:
        self.publisher = Publisher(IntegerDomain(), capacity_bytes=1000)
        self.taken = dict.fromkeys(limits_s, 0)
        for name, limit_s in limits_s.items():
            self.publisher.subscribe(name, DeliveryOptions(slow="block", block_limit_s=limit_s))

    def hold(self, *names: str) -> None:
        """Let so many of them hold, and nobody else."""
        for name in set(self.publisher.queues) - set(names):
            self.publisher.take(name)
        self.publisher.data(data(0, size=1000))
        for name in set(self.publisher.queues) - set(names):
            self.publisher.take(name)
        assert set(self.publisher.holders()) == set(names)

    def look(self, now_s: float) -> list[str]:
        """Look at a time; return who is cut off."""
        holders = {name: self.publisher.queues[name] for name in self.publisher.holders()}
        has_cut_off = self.publisher.cut_off_late(now_s, self.taken.__getitem__)
        late = [name for name, queue in holders.items() if queue.is_closed]
        assert has_cut_off == bool(late)
        return late


def test_each_holder_has_its_own_limit_from_when_it_began() -> None:
    """Those who hold later may hold for longer, and the alarm is for the first whose time is over."""
    holding = Holding(a=60.0, b=10.0)
    assert holding.publisher.overdue_in_s(0.0) is None
    holding.hold("a")
    assert holding.look(0.0) == []
    holding.hold("a", "b")
    assert holding.look(30.0) == []
    assert holding.publisher.overdue_in_s(31.0) == 9.0
    assert holding.look(39.9) == []
    assert holding.look(40.0) == ["b"]
    assert holding.publisher.overdue_in_s(100.0) == 0.0
    assert holding.look(60.0) == ["a"]
    assert holding.publisher.overdue_in_s(60.0) is None


def test_who_lets_go_begins_anew() -> None:
    """Time that was held before does not count."""
    holding = Holding(a=60.0)
    holding.hold("a")
    holding.look(0.0)
    holding.hold()
    holding.taken["a"] += 1
    assert holding.look(50.0) == []
    assert holding.publisher.overdue_in_s(50.0) is None
    holding.hold("a")
    assert holding.look(55.0) == []
    assert holding.look(114.0) == []
    assert holding.look(115.0) == ["a"]


def test_a_holder_that_takes_something_may_go_on() -> None:
    """However little it is, the limit counts from when that was seen; what others take does not count."""
    holding = Holding(moving=60.0, still=500.0)
    holding.hold("moving", "still")
    for now_s in range(0, 500, 50):
        holding.taken["moving"] += 1
        assert holding.look(float(now_s)) == []
    assert holding.look(509.9) == ["still"]
    assert holding.look(510.0) == ["moving"]


@pytest.mark.parametrize(("limit_s", "text"), [(60.0, "for 60 s"), (0.25, "for 0.25 s")])
def test_a_holder_that_is_cut_off_is_told_how_long_it_held(limit_s: float, text: str) -> None:
    """And that it fell behind, as whoever is cut off did."""
    holding = Holding(a=limit_s)
    holding.hold("a")
    holding.look(0.0)
    assert holding.look(limit_s) == ["a"]
    [told] = messages(holding.publisher, "a")
    assert isinstance(told, Rejected)
    assert text in told.reason
    assert told.reason.startswith("it fell too far behind")


def test_an_early_subscriber_of_a_job_that_goes_on_waits_for_its_beginning() -> None:
    """It is told where the worker goes on, and sees no rest of an epoch of which the publisher has not all."""
    publisher = Publisher(IntegerDomain(), has_begun=False)
    publisher.subscribe("early")
    assert taken(publisher, "early") == []
    publisher.begin(WorkerPosition([3], {4: 2}, events=17))
    [numbered] = taken(publisher, "early")
    assert numbered.message == InitialFrontierSnapshot([3], [4])


def test_subscribers_of_a_dead_publisher_receive_what_they_want_of_what_they_have_missed() -> None:
    """With the numbers that it has, also where a condition leaves out some. After a failure they receive that."""
    publisher = Publisher(IntegerDomain(), has_begun=False)
    publisher.begin(WorkerPosition([0], {}, generation=Generation(1), number=7))
    publisher.feed([encode_batch(0, ["no"]), encode_batch(0, ["yes"]), LowerFrontierUpdate([(0, -1), (1, 1)])])
    publisher.subscribe("late", DeliveryOptions(where=Where(lambda word: word == "yes")), again=True)
    first, *others = taken(publisher, "late")
    begin = 7 + NUMBERS_OF_A_LIFE
    assert first == Numbered(begin, InitialFrontierSnapshot([0], [], 1, (), 7))
    assert [(one.sequence - begin, one.skipped) for one in others] == [(2, 1), (3, 0)]
    publisher.forget()
    with raises(DeliveryError):
        publisher.subscribe("too late", again=True)
    publisher.fail("it broke")
    publisher.subscribe("too late", again=True)
    assert taken(publisher, "too late") == [Numbered(begin + 4, Failed("it broke"))]


@pytest.mark.parametrize("lives", [[(1, -1), (2, -1)], [(1, 1), (2, 1), (3, 2)], [(1, 2), (1, 4)], [(3, 0), (4, 3)]])
def test_a_publisher_in_the_place_of_dead_ones_has_greater_numbers(lives: list[tuple[int, int]]) -> None:
    """Whatever the clock shows, and though the snapshot is an old one, or one of before the program began again."""
    numbers, sent = [0, 1, 2, 3], 3
    for generation, standing in lives:
        publisher = Publisher(IntegerDomain(), has_begun=False)
        number = -1 if standing < 0 else numbers[standing]
        publisher.begin(WorkerPosition([0], {}, generation=Generation(generation), number=number))
        assert publisher.number > numbers[-1]
        publisher.feed([encode_batch(0, [one]) for one in range(sent)])
        numbers.append(publisher.number)
