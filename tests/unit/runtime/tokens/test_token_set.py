"""`TokenSet` by itself: its tokens are an antichain, and a wrong move changes nothing at all."""

import gc
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.laws.domains import BITEMPORAL, INTEGERS, Bitemporal, small_times
from tests.laws.oracles import minimal_times
from tests.laws.strategies import law_settings
from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.runtime.tokens.token_ledger import Leak, TokenLedger
from tidewheel.runtime.worker.ports import PortOwner

OUTPUT, OTHER_OUTPUT = 1, 3


class Bench:
    """Tokens of one worker, and the counts that its peers would hear of."""

    def __init__(self, domain: TimeDomain) -> None:
        self.ledger = TokenLedger()
        self.domain = domain
        self._counts: Counter[tuple[int, Time]] = Counter()

    def token(self, time: Time, output: int = OUTPUT) -> tw.TimestampToken:
        self._counts[output, time] += 1
        return tw.TimestampToken(self.ledger, self.domain, output, time, PortOwner("holder"))

    def tokens(self, *times: Time) -> tw.TokenSet:
        return tw.TokenSet([self.token(time) for time in times])

    def counts(self) -> dict[Time, int]:
        """Return how many tokens each time has now."""
        for pointstamp, difference in self.ledger.drain():
            self._counts[pointstamp] += difference
        return {time: count for (_, time), count in self._counts.items() if count}


def bitemporal(valid: int, recorded: int) -> Bitemporal:
    return Bitemporal(valid, recorded)


A, B, AB = bitemporal(2, 0), bitemporal(0, 2), bitemporal(2, 2)


def test_only_the_earliest_are_kept() -> None:
    """One behind another says nothing new and is discarded, whichever comes first; of two at one time, one stays."""
    bench = Bench(BITEMPORAL)
    held = bench.tokens(AB, A, B, A, bitemporal(5, 5))
    assert set(held.times) == {A, B}
    assert bench.counts() == {A: 1, B: 1}
    assert len(held) == 2
    assert {token.time for token in held} == {A, B}
    held.insert(bench.token(bitemporal(0, 0)))
    assert held.times == (bitemporal(0, 0),)
    assert bench.counts() == {bitemporal(0, 0): 1}
    assert repr(held) == f"TokenSet([{bitemporal(0, 0)!r}])"


def test_a_token_put_in_twice_is_in_once() -> None:
    """It is not taken for a second one at its time and discarded."""
    bench = Bench(INTEGERS)
    token = bench.token(3)
    held = tw.TokenSet([token, token])
    held.insert(token)
    assert (held.times, token.is_live, bench.counts()) == ((3,), True, {3: 1})


def test_a_delayed_token_is_a_further_one() -> None:
    """The set keeps its own; the new one is to be discarded by whoever asked for it."""
    bench = Bench(BITEMPORAL)
    held = bench.tokens(A, B)
    with held.delayed(bitemporal(9, 1)) as later, held.delayed(A) as same:
        assert bench.counts() == {A: 2, B: 1, bitemporal(9, 1): 1}
        assert (later.time, same.time) == (bitemporal(9, 1), A)
        assert all(token is not own for own in held for token in (later, same))
    assert bench.counts() == {A: 1, B: 1}


@pytest.mark.parametrize("time", [bitemporal(1, 1), bitemporal(0, 0), 3, (2, 2), None, "soon", bitemporal(-1, 5), [A]])
def test_a_time_before_all_tokens_is_refused(time: Any) -> None:
    """And so is what is no time of the scope; delay and downgrade say which times the set has, and change nothing."""
    bench = Bench(BITEMPORAL)
    held = bench.tokens(A, B)
    own = list(held)
    with raises(tw.errors.TokenError):
        held.delayed(time)
    for frontier in ([time], [AB, time], [time, AB], [A, B, time]):
        with raises(tw.errors.TokenError):
            held.downgrade(frontier)
        assert list(held) == own
        assert all(token.is_live for token in own)
        assert bench.counts() == {A: 1, B: 1}


def test_an_error_leaves_no_trace_in_the_ledger() -> None:
    """Not even for a moment are there other counts than before, which a step in between could tell the peers."""
    bench = Bench(BITEMPORAL)
    held = bench.tokens(A, B)
    bench.counts()
    with pytest.raises(tw.errors.TokenError):
        held.downgrade([AB, bitemporal(9, 9), bitemporal(1, 1)])
    assert bench.ledger.is_empty


@pytest.mark.parametrize(
    ("frontier", "expected"),
    [
        ([AB], {AB}),
        ([A], {A}),
        ([AB, A], {A}),
        ([bitemporal(3, 0), bitemporal(0, 3)], {bitemporal(3, 0), bitemporal(0, 3)}),
        ([bitemporal(3, 0), bitemporal(3, 0)], {bitemporal(3, 0)}),
        ([], set()),
        ([A, B], {A, B}),
        ([B, A], {A, B}),
        (
            [bitemporal(9, 2), bitemporal(2, 9), bitemporal(4, 4)],
            {bitemporal(9, 2), bitemporal(2, 9), bitemporal(4, 4)},
        ),
    ],
)
def test_downgrade_takes_the_set_to_a_frontier(frontier: list[Time], expected: set[Time]) -> None:
    """To its minimal times, each once; tokens may merge and multiply; nothing else stays behind."""
    for given_as in (list, tuple, iter, lambda times: Antichain(BITEMPORAL, times)):
        bench = Bench(BITEMPORAL)
        held = bench.tokens(A, B)
        held.downgrade(given_as(frontier))
        assert set(held.times) == expected
        assert bench.counts() == dict.fromkeys(expected, 1)
        assert all(token.is_live for token in held)


def test_discard_and_the_block_give_all_up() -> None:
    """Whatever happens in the block; the set is empty then, may be discarded again, and may be filled again."""
    bench = Bench(BITEMPORAL)
    held = bench.tokens(A, B)
    with pytest.raises(ZeroDivisionError), held:
        raise ZeroDivisionError
    assert (held.times, len(held), bench.counts()) == ((), 0, {})
    held.discard()
    held.insert(bench.token(AB))
    assert bench.counts() == {AB: 1}
    with held as entered:
        assert entered is held
    assert bench.counts() == {}


def test_an_empty_set_has_nothing_to_send_with() -> None:
    """It may go to no time, which it is at, and nowhere else."""
    held = tw.TokenSet()
    assert (held.times, list(held), repr(held)) == ((), [], "TokenSet([])")
    held.downgrade([])
    held.discard()
    with raises(tw.errors.TokenError):
        held.delayed(3)
    with raises(tw.errors.TokenError):
        held.downgrade([3])


def test_a_token_of_another_output_is_refused() -> None:
    """Of another output of the operator, or of the same output on another worker; it stays the caller's."""
    bench, elsewhere = Bench(INTEGERS), Bench(INTEGERS)
    held = bench.tokens(3)
    for token in (bench.token(5, OTHER_OUTPUT), bench.token(1, OTHER_OUTPUT), elsewhere.token(5), elsewhere.token(1)):
        with raises(tw.errors.TokenError):
            held.insert(token)
        assert token.is_live
        assert held.times == (3,)
        token.discard()


def test_a_discarded_token_is_refused() -> None:
    """The error names it."""
    bench = Bench(INTEGERS)
    token = bench.token(3)
    token.discard()
    held = bench.tokens(1)
    with raises(tw.errors.TokenError):
        held.insert(token)
    with raises(tw.errors.TokenError):
        tw.TokenSet([token])
    assert held.times == (1,)


@pytest.mark.parametrize("wrong", [None, 3, "token", object(), (1, 2)])
def test_what_is_no_token_is_refused(wrong: Any) -> None:
    """The error says what a set holds."""
    with raises(tw.errors.TokenError):
        tw.TokenSet().insert(wrong)


def test_tokens_of_a_forgotten_set_are_reported() -> None:
    """Each with operator and time, and counted off."""
    bench = Bench(BITEMPORAL)
    held = bench.tokens(A, B)
    held.downgrade([bitemporal(3, 0), B])
    del held
    gc.collect()
    assert bench.counts() == {}
    leaks = bench.ledger.leaks
    assert sorted(leaks, key=repr) == sorted([Leak("holder", bitemporal(3, 0)), Leak("holder", B)], key=repr)


def test_iteration_is_over_the_tokens_of_a_moment() -> None:
    """A set may be changed while somebody iterates over it."""
    bench = Bench(BITEMPORAL)
    held = bench.tokens(A, B)
    for token in held:
        if token.time == A:
            held.downgrade([bitemporal(2, 1), B])
    assert set(held.times) == {bitemporal(2, 1), B}


MOVES = st.lists(
    st.tuples(st.sampled_from(["insert", "downgrade", "delayed", "discard"]), st.integers(0, 99)), max_size=12
)


@law_settings(80)
@given(domain=st.sampled_from([INTEGERS, BITEMPORAL]), moves=MOVES, data=st.data())
def test_a_set_is_the_frontier_of_what_was_put_in(domain: TimeDomain, moves: list[Any], data: st.DataObject) -> None:
    """After any moves its times are the expected antichain, each counted once; what is refused changes nothing."""
    pool = st.sampled_from(small_times(domain))
    bench, held = Bench(domain), tw.TokenSet()
    expected: set[Time] = set()
    for move, _ in moves:
        if move == "insert":
            time = data.draw(pool)
            held.insert(bench.token(time))
            expected = minimal_times(domain, expected | {time})
        elif move == "discard":
            held.discard()
            expected = set()
        else:
            times = data.draw(st.lists(pool, max_size=3 if move == "downgrade" else 1))
            allowed = all(any(domain.less_equal(own, time) for own in expected) for time in times)
            if move == "downgrade" and allowed:
                held.downgrade(times)
                expected = minimal_times(domain, times)
            elif move == "downgrade":
                with pytest.raises(tw.errors.TokenError):
                    held.downgrade(times)
            elif times and allowed:
                held.delayed(times[0]).discard()
        assert set(held.times) == expected
        assert len(held) == len(expected)
        assert bench.counts() == dict.fromkeys(expected, 1)
    held.discard()


# ---------------------------------------------------------------------- tokens discarded behind the set's back


def test_discarding_a_set_gives_all_up_though_one_is_gone() -> None:
    """Like a token, a set that is left by its block is no reason for a further error, and nothing stays behind."""
    bench = Bench(BITEMPORAL)
    own = [bench.token(A), bench.token(B)]
    with tw.TokenSet(own):
        own[0].discard()
    assert bench.counts() == {}


def test_a_refused_downgrade_changes_nothing_though_one_is_gone() -> None:
    """All or nothing holds, too, where a token that the new times do not need was discarded elsewhere."""
    bench = Bench(BITEMPORAL)
    own = [bench.token(A), bench.token(B)]
    held = tw.TokenSet(own)
    own[0].discard()
    before = bench.counts()
    try:
        held.downgrade([bitemporal(0, 5)])
    except tw.errors.TokenError:
        assert bench.counts() == before
    assert bench.counts() in (before, {bitemporal(0, 5): 1})
    assert own[1].is_live == (bench.counts() == before)


def test_a_set_that_cannot_be_made_leaves_the_tokens_as_they_were() -> None:
    """None of them is discarded because a later one is refused."""
    bench = Bench(INTEGERS)
    late, early = bench.token(5), bench.token(2)
    with pytest.raises(tw.errors.TokenError):
        tw.TokenSet([late, early, "nonsense"])  # type: ignore[list-item]
    assert late.is_live
    assert early.is_live


def test_a_token_discarded_behind_its_back_does_not_shut_out_another() -> None:
    """The set goes on with the tokens that are live."""
    bench = Bench(INTEGERS)
    held = bench.tokens(0)
    next(iter(held)).discard()
    held.insert(bench.token(3))
    assert held.times == (3,)
    assert bench.counts() == {3: 1}


def test_a_time_is_not_a_frontier() -> None:
    """The error says how to write it; the set stays as it is."""
    bench = Bench(BITEMPORAL)
    held = bench.tokens(A)
    for wrong in (3, A, None):
        with raises(tw.errors.TokenError):
            held.downgrade(wrong)  # type: ignore[arg-type]
    assert held.times == (A,)
