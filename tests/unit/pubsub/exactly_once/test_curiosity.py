"""Curiosity streams, against a value for each tick and the table of what changes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.exactly_once.ranges import RANGES, TICKS, ranges_of, ticks_of
from tests.laws.strategies import law_settings
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.exactly_once.curiosity import Curiosity, CuriosityStream
from tidewheel.pubsub.exactly_once.tick_set import FOREVER, TickRange

N, C, A = Curiosity

TABLE = {
    "acknowledge": {N: A, C: A, A: A},
    "curious": {N: C, C: C, A: A},
    "satisfied": {N: N, C: N, A: A},
    "forget": {N: N, C: N, A: N},
}

CHANGES = st.lists(st.tuples(st.sampled_from(sorted(TABLE)), st.lists(RANGES, max_size=3)), max_size=10)


@law_settings(500)
@given(changes=CHANGES)
def test_every_tick_changes_as_the_table_says(changes: list[tuple[str, list[TickRange]]]) -> None:
    """Whatever comes in whatever order; what is returned is what changed; and what is A is not wanted."""
    stream, model = CuriosityStream(), dict.fromkeys(TICKS, N)
    for kind, ranges in changes:
        after = {tick: TABLE[kind][model[tick]] for tick in ticks_of(*ranges)}
        changed = {tick for tick, value in after.items() if value is not model[tick]}
        model |= after
        if kind == "forget":
            for first, end in ranges:
                stream.forget(first, end)
        else:
            assert getattr(stream, kind)(ranges) == ranges_of(changed)
        assert {tick: stream.value(tick) for tick in TICKS} == model
        assert stream.acknowledged.ranges() == ranges_of(tick for tick in TICKS if model[tick] is A)
        assert stream.wanted.ranges() == ranges_of(tick for tick in TICKS if model[tick] is C)


def test_an_open_end_stays_open() -> None:
    """Everything from a tick on can be wanted, and answered or acknowledged bit by bit."""
    stream = CuriosityStream()
    assert stream.curious([(5, FOREVER)]) == ((5, FOREVER),)
    assert stream.satisfied([(0, 100)]) == ((5, 100),)
    assert stream.acknowledge([(0, 200)]) == ((0, 200),)
    assert stream.curious([(0, FOREVER)]) == ()
    assert stream.wanted.ranges() == ((200, FOREVER),)


def test_what_is_no_range_is_refused() -> None:
    """By everything that takes ranges."""
    stream = CuriosityStream()
    for call in (stream.acknowledge, stream.curious, stream.satisfied):
        with pytest.raises(ProtocolError, match=r"\(3, 2\) is no range of ticks"):
            call([(3, 2)])
    with pytest.raises(ProtocolError, match=r"\(3, 2\) is no range of ticks"):
        stream.forget(3, 2)
