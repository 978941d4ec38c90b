"""Knowledge streams, against a stream that has a value for each tick and looks into the table."""

import pickle
from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.exactly_once.lattice import LUB, Knowledge, lowered, value_of
from tests.kit.exactly_once.ranges import BEYOND, RANGES, TICKS, ranges_of, ticks_of
from tests.kit.messages import raises
from tests.laws.strategies import law_settings
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.exactly_once.knowledge import ContradictionError, KnowledgeStream
from tidewheel.pubsub.messages.tick_set import FOREVER, TickRange

Q, F, D, S, DSTAR, E = Knowledge

Value: TypeAlias = tuple[Knowledge, str]
Change: TypeAlias = tuple[str, tuple[int, int] | int, str]

CHANGES = st.lists(
    st.tuples(st.just("data"), st.integers(0, BEYOND - 1), st.sampled_from("aab"))
    | st.tuples(st.sampled_from(["final", "final", "forget"]), RANGES, st.just(""))
    | st.tuples(st.sampled_from(["oldest", "latest"]), st.integers(0, 3 * BEYOND), st.just("")),
    max_size=14,
)


class Naive:
    """A value for each tick, with its message; the size of a message is 1 + its tick."""

    def __init__(self) -> None:
        self.values: dict[int, Value] = dict.fromkeys(TICKS, (Q, ""))

    def accumulate(self, ticks: set[int], came: Value) -> bool:
        """Take the least upper bound at each tick, and lower it; or change nothing and return False for an error."""
        after = {tick: self._bound(self.values[tick], came) for tick in ticks}
        if any(value is E for value, _ in after.values()):
            return False
        self.values |= after
        return True

    def _bound(self, held: Value, came: Value) -> Value:
        if held[0] is came[0] is D and held[1] != came[1]:
            return (E, "")
        value = lowered(LUB[held[0], came[0]])
        return (value, max(held[1], came[1]) if value is D else "")

    def ticks(self, value: Knowledge) -> set[int]:
        return {tick for tick, (held, _) in self.values.items() if held is value}

    def forget(self, ticks: set[int]) -> None:
        self.values |= dict.fromkeys(ticks, (Q, ""))

    def bytes(self) -> int:
        return sum(1 + tick for tick in self.ticks(D))

    def over(self, max_bytes: int, *, oldest: bool) -> TickRange | None:
        """Return the range to be forgotten so that no more than so many bytes are left."""
        last = None
        rest = self.bytes()
        for tick in sorted(self.ticks(D), reverse=not oldest):
            if rest > max_bytes:
                last, rest = tick, rest - 1 - tick
        if last is None:
            return None
        if oldest:
            return (min(set(TICKS) - self.ticks(F)), last + 1)
        kept = max((tick for tick in self.ticks(D) if tick < last), default=0)
        return (min(last, *(tick for tick in self.ticks(Q) if tick >= kept), BEYOND), FOREVER)


def apply(stream: KnowledgeStream[str], model: Naive, change: Change) -> None:
    """Make one change to both."""
    kind, where, message = change
    if isinstance(where, tuple):
        if kind == "forget":
            stream.forget(*where)
            model.forget(ticks_of(where))
        else:
            stream.accumulate_final(*where)
            model.accumulate(ticks_of(where), (F, ""))
    elif kind == "data":
        accumulate_message(stream, model, where, message)
    else:
        forgotten = model.over(where, oldest=kind == "oldest")
        if kind == "oldest":
            stream.forget_oldest_data(where)
        else:
            assert stream.forget_latest_data(where) == (forgotten is not None)
        if forgotten is not None:
            model.forget(ticks_of(forgotten))
        assert stream.data.bytes <= where


def accumulate_message(stream: KnowledgeStream[str], model: Naive, tick: int, message: str) -> None:
    held = model.values[tick]
    if not model.accumulate({tick}, (D, message)):
        with pytest.raises(ContradictionError) as raised:
            stream.accumulate_data(tick, message, size_bytes=1 + tick)
        assert (raised.value.tick, raised.value.held, raised.value.came) == (tick, held[1], message)
    else:
        stream.accumulate_data(tick, message, size_bytes=1 + tick)


@law_settings(1000)
@given(changes=CHANGES, within=RANGES)
def test_a_stream_is_as_the_table_says(changes: list[Change], within: TickRange) -> None:
    """At every tick, whatever comes to be known or is forgotten, in whatever order."""
    stream, model = KnowledgeStream[str](), Naive()
    for change in changes:
        apply(stream, model, change)
        assert {tick: value_of(stream, tick) for tick in TICKS} == {
            tick: held for tick, (held, _) in model.values.items()
        }
    asked = ticks_of(within)
    unknown, finals, messages = model.ticks(Q), model.ticks(F), model.ticks(D)
    assert stream.known.missing(*within) == ranges_of(unknown & asked)
    assert stream.finals(*within) == ranges_of(finals & asked)
    assert stream.finals() == ranges_of(finals)
    assert stream.known.ranges() == ranges_of(finals | messages)
    assert stream.data.between(*within) == [(tick, model.values[tick][1]) for tick in sorted(messages & asked)]
    assert (stream.data.bytes, len(stream.data)) == (model.bytes(), len(messages))
    assert stream.final_end == min(unknown | messages, default=FOREVER)
    for start in TICKS:
        assert stream.known.next_missing(start) == min((tick for tick in unknown if tick >= start), default=FOREVER)


@law_settings(100)
@given(changes=CHANGES, data=st.data())
def test_the_order_of_what_comes_does_not_matter(changes: list[Change], data: st.DataObject) -> None:
    """Nor how often it comes, as long as nothing is forgotten and each tick has one message."""
    arriving = [(kind, where, "a") for kind, where, _ in changes if kind in {"data", "final"}]
    one, other = KnowledgeStream[str](), KnowledgeStream[str]()
    for stream, order in ((one, arriving), (other, data.draw(st.permutations(arriving + arriving)))):
        for _, where, message in order:
            if isinstance(where, tuple):
                stream.accumulate_final(*where)
            else:
                stream.accumulate_data(where, message, size_bytes=7)
    assert one.finals() == other.finals()
    assert one.data.between(0, FOREVER) == other.data.between(0, FOREVER)
    assert one.data.bytes == other.data.bytes


def test_silence_costs_one_range_and_a_message_in_it_none() -> None:
    """A million silent ticks, and a hundred messages after silence of a million ticks each, are one range."""
    stream = KnowledgeStream[str]()
    for first in range(0, 1_000_000, 1000):
        stream.accumulate_final(first, first + 1000)
    assert stream.known.ranges() == ((0, 1_000_000),)
    for tick in range(1_000_000, 101_000_000, 1_000_000):
        stream.accumulate_final(stream.known.end, tick)
        stream.accumulate_data(tick, "m", size_bytes=1)
    assert (len(stream.known), len(stream.data), stream.final_end) == (1, 100, 1_000_000)


@pytest.mark.parametrize("forget", [KnowledgeStream.forget_oldest_data, KnowledgeStream.forget_latest_data])
def test_what_is_forgotten_for_room_leaves_one_range(
    forget: Callable[[KnowledgeStream[str], int], object],
) -> None:
    """So that a stream that goes on and on and keeps ten messages is no larger in the end than at first."""
    stream = KnowledgeStream[str]()
    stream.accumulate_final(0, 10)
    for tick in range(20, 20_000, 10):
        stream.accumulate_final(tick - 9, tick)
        stream.accumulate_data(tick, "m", size_bytes=1)
        forget(stream, 10)
        assert len(stream.data) <= 10
        assert len(stream.known) <= 3
    assert stream.final_end == 10


def test_what_lies_before_a_tick_stays_however_little_room_there_is() -> None:
    """Of messages behind a gap nothing stays that has no room; those before it are no part of that."""
    stream = KnowledgeStream[str]()
    stream.accumulate_final(0, 10)
    for tick in (*range(10, 15), *range(20, 25)):
        stream.accumulate_data(tick, "m", size_bytes=1)
    assert stream.forget_latest_data(7, after=15)
    assert stream.known.ranges() == ((0, 15), (20, 22))
    assert stream.forget_latest_data(3, after=15)
    assert not stream.forget_latest_data(3, after=15)
    assert (stream.known.ranges(), len(stream.data)) == (((0, 15),), 5)


def test_two_messages_on_one_tick_are_named() -> None:
    """The tick and both messages, also if they are long, and after the error has crossed to another process."""
    stream = KnowledgeStream[bytes]()
    stream.accumulate_data(7, b"one" + bytes(10_000))
    with raises(ContradictionError) as e:
        stream.accumulate_data(7, b"two")
    copy = pickle.loads(pickle.dumps(e.value))
    assert isinstance(copy, ContradictionError)
    assert (copy.tick, copy.held, copy.came, str(copy)) == (7, b"one" + bytes(10_000), b"two", str(e.value))
    assert len(str(copy)) < 300
    assert stream.data.between(0, 10) == [(7, b"one" + bytes(10_000))]
    stream.accumulate_data(7, b"one" + bytes(10_000))
    assert len(stream.data) == 1


def test_what_is_no_tick_or_range_is_refused() -> None:
    """And nothing changes."""
    stream = KnowledgeStream[str]()
    for tick in (-1, FOREVER):
        with raises(ProtocolError):
            stream.accumulate_data(tick, "m")
    for call in (stream.accumulate_final, stream.take, stream.forget, stream.finals):
        with raises(ProtocolError):
            call(3, 2)
    assert (len(stream.data), stream.known.ranges()) == (0, ())
