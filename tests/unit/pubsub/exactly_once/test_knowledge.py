"""Knowledge streams, against a stream that has a value for each tick and looks into the table."""

import pickle
from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.exactly_once.ranges import BEYOND, RANGES, TICKS, ranges_of, ticks_of
from tests.laws.strategies import law_settings
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.exactly_once.knowledge import LUB, ContradictionError, Knowledge, KnowledgeStream, lowered
from tidewheel.pubsub.exactly_once.tick_set import FOREVER, TickRange

Q, F, D, S, DSTAR, E = Knowledge

Value: TypeAlias = tuple[Knowledge, str]
Change: TypeAlias = tuple[str, tuple[int, int] | int, str]

CHANGES = st.lists(
    st.tuples(st.just("data"), st.integers(0, BEYOND - 1), st.sampled_from("aab"))
    | st.tuples(st.sampled_from(["final", "final", "silence", "forget"]), RANGES, st.just(""))
    | st.tuples(st.sampled_from(["oldest", "latest"]), st.integers(0, 3 * BEYOND), st.just("")),
    max_size=14,
)


class Naive:
    """A value for each tick, with its message; the size of a message is 1 + its tick."""

    def __init__(self) -> None:
        self.values: dict[int, Value] = dict.fromkeys(TICKS, (Q, ""))

    def accumulate(self, ticks: set[int], came: Value) -> set[int] | None:
        """Take the least upper bound at each tick, and lower it; return what changed, or None for an error."""
        after = {tick: self._bound(self.values[tick], came) for tick in ticks}
        if any(value is E for value, _ in after.values()):
            return None
        changed = {tick for tick, value in after.items() if value != self.values[tick]}
        self.values |= after
        return changed

    def _bound(self, held: Value, came: Value) -> Value:
        if held[0] is came[0] is D and held[1] != came[1]:
            return (E, "")
        value = lowered(LUB[held[0], came[0]])
        return (value, max(held[1], came[1]) if value is D else "")

    def ticks(self, value: Knowledge) -> set[int]:
        return {tick for tick, (held, _) in self.values.items() if held is value}

    def forget(self, ticks: set[int]) -> tuple[int, ...]:
        messages = ticks & self.ticks(D)
        self.values |= dict.fromkeys(ticks, (Q, ""))
        return tuple(sorted(messages))

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
    """Make one change to both, and compare what they say of it."""
    kind, where, message = change
    if isinstance(where, tuple):
        if kind == "forget":
            assert stream.forget(*where) == model.forget(ticks_of(where))
        else:
            accumulate_range(stream, model, where, kind)
    elif kind == "data":
        accumulate_message(stream, model, where, message)
    else:
        forgotten = model.over(where, oldest=kind == "oldest")
        assert (stream.forget_oldest_data(where) if kind == "oldest" else stream.forget_latest_data(where)) == forgotten
        if forgotten is not None:
            model.forget(ticks_of(forgotten))
        assert stream.data_bytes <= where


def accumulate_message(stream: KnowledgeStream[str], model: Naive, tick: int, message: str) -> None:
    held = model.values[tick]
    changed = model.accumulate({tick}, (D, message))
    if changed is None:
        with pytest.raises(ContradictionError) as raised:
            stream.accumulate_data(tick, message, size_bytes=1 + tick)
        assert (raised.value.tick, raised.value.held, raised.value.came) == (tick, held[1], message)
    else:
        assert stream.accumulate_data(tick, message, size_bytes=1 + tick) == bool(changed)


def accumulate_range(stream: KnowledgeStream[str], model: Naive, given: TickRange, kind: str) -> None:
    messages = ticks_of(given) & model.ticks(D)
    # Of silence only the first contradiction is told; D* is what is final of a message.
    changed = model.accumulate(ticks_of(given), (S if kind == "silence" else F, ""))
    if changed is None:
        with pytest.raises(ContradictionError) as raised:
            stream.accumulate_silence(*given)
        assert (raised.value.tick, raised.value.came) == (min(messages), S)
        return
    new = stream.accumulate_silence(*given) if kind == "silence" else stream.accumulate_final(*given)
    assert new == (ranges_of(changed), tuple(sorted(messages)))
    assert bool(new) == bool(changed)


@law_settings(1000)
@given(changes=CHANGES, within=RANGES)
def test_a_stream_is_as_the_table_says(changes: list[Change], within: TickRange) -> None:
    """At every tick, whatever comes to be known or is forgotten, in whatever order; and it says what was new."""
    stream, model = KnowledgeStream[str](), Naive()
    for change in changes:
        apply(stream, model, change)
        assert {tick: stream.value(tick) for tick in TICKS} == {tick: held for tick, (held, _) in model.values.items()}
    asked = ticks_of(within)
    unknown, finals, messages = model.ticks(Q), model.ticks(F), model.ticks(D)
    assert stream.unknown(*within) == ranges_of(unknown & asked)
    assert stream.finals(*within) == ranges_of(finals & asked)
    assert stream.finals() == ranges_of(finals)
    assert stream.known.ranges() == ranges_of(finals | messages)
    assert stream.known_end == (stream.known.ranges()[-1][1] if finals | messages else 0)
    assert stream.data_between(*within) == [(tick, model.values[tick][1]) for tick in sorted(messages & asked)]
    assert stream.oldest_data == next(iter(stream.data_between(0, FOREVER)), None)
    assert (stream.data_bytes, stream.data_count) == (model.bytes(), len(messages))
    assert stream.final_end == min(unknown | messages, default=FOREVER)
    for start in TICKS:
        assert stream.doubt_horizon(start) == min((tick for tick in unknown if tick >= start), default=FOREVER)


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
    assert one.data_between(0, FOREVER) == other.data_between(0, FOREVER)
    assert one.data_bytes == other.data_bytes


def test_silence_costs_one_range_and_a_message_in_it_none() -> None:
    """A million silent ticks, and a hundred messages after silence of a million ticks each, are one range."""
    stream = KnowledgeStream[str]()
    for first in range(0, 1_000_000, 1000):
        stream.accumulate_final(first, first + 1000)
    assert (len(stream.known), stream.doubt_horizon()) == (1, 1_000_000)
    for tick in range(1_000_000, 101_000_000, 1_000_000):
        stream.accumulate_final(stream.known_end, tick)
        stream.accumulate_data(tick, "m", size_bytes=1)
    assert (len(stream.known), stream.data_count, stream.final_end) == (1, 100, 1_000_000)


@pytest.mark.parametrize("forget", [KnowledgeStream.forget_oldest_data, KnowledgeStream.forget_latest_data])
def test_what_is_forgotten_for_room_leaves_one_range(
    forget: Callable[[KnowledgeStream[str], int], TickRange | None],
) -> None:
    """So that a stream that goes on and on and keeps ten messages is no larger in the end than at first."""
    stream = KnowledgeStream[str]()
    stream.accumulate_final(0, 10)
    for tick in range(20, 20_000, 10):
        stream.accumulate_final(tick - 9, tick)
        stream.accumulate_data(tick, "m", size_bytes=1)
        forget(stream, 10)
        assert stream.data_count <= 10
        assert len(stream.known) <= 3
    assert stream.final_end == 10


def test_what_lies_before_a_tick_stays_however_little_room_there_is() -> None:
    """Of messages behind a gap nothing stays that has no room; those before it are no part of that."""
    stream = KnowledgeStream[str]()
    stream.accumulate_final(0, 10)
    for tick in (*range(10, 15), *range(20, 25)):
        stream.accumulate_data(tick, "m", size_bytes=1)
    assert stream.forget_latest_data(7, after=15) == (22, FOREVER)
    assert stream.forget_latest_data(3, after=15) == (15, FOREVER)
    assert stream.forget_latest_data(3, after=15) is None
    assert stream.read_data(0, FOREVER, 3) == ([(10, "m"), (11, "m"), (12, "m")], 13)
    assert stream.read_data(13, 20, 2) == ([(13, "m"), (14, "m")], 20)


def test_two_messages_on_one_tick_are_named() -> None:
    """The tick and both messages, also if they are long, and after the error has crossed to another process."""
    stream = KnowledgeStream[bytes]()
    stream.accumulate_data(7, b"one" + bytes(10_000))
    with pytest.raises(ContradictionError, match=r"tick 7 has two different messages, first b'one.*, now b'two'") as e:
        stream.accumulate_data(7, b"two")
    copy = pickle.loads(pickle.dumps(e.value))
    assert isinstance(copy, ContradictionError)
    assert (copy.tick, copy.held, copy.came, str(copy)) == (7, b"one" + bytes(10_000), b"two", str(e.value))
    assert len(str(copy)) < 300
    assert stream.data_between(0, 10) == [(7, b"one" + bytes(10_000))]
    assert not stream.accumulate_data(7, b"one" + bytes(10_000))


def test_silence_where_a_message_was_is_named() -> None:
    """Nothing of the range becomes known then."""
    stream = KnowledgeStream[str]()
    stream.accumulate_data(7, "one")
    with pytest.raises(ProtocolError, match=r"tick 7 has the message 'one', .* range \(5, 9\) silent"):
        stream.accumulate_silence(5, 9)
    assert (stream.known.ranges(), stream.value(7)) == (((7, 8),), D)


def test_what_is_no_tick_or_range_is_refused() -> None:
    """And nothing changes."""
    stream = KnowledgeStream[str]()
    for tick in (-1, FOREVER):
        with pytest.raises(ProtocolError, match="is no range of ticks"):
            stream.accumulate_data(tick, "m")
    for call in (stream.accumulate_final, stream.accumulate_silence, stream.forget, stream.finals, stream.unknown):
        with pytest.raises(ProtocolError, match=r"\(3, 2\) is no range of ticks"):
            call(3, 2)
    assert (stream.data_count, stream.known.ranges()) == (0, ())
