"""Timestamp tokens: what they allow, and how they are counted."""

import copy
import pickle
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.laws.strategies import law_settings
from tidewheel.progress import Time, TimeDomain
from tidewheel.runtime.tokens.token_ledger import TokenLedger
from tidewheel.runtime.worker.ports import PortOwner

INTEGERS = tw.progress.IntegerDomain()
ROUNDS = tw.progress.ProductDomain(INTEGERS, INTEGERS)
LOCATION = 5


def token_at(time: Time, ledger: TokenLedger, domain: TimeDomain = INTEGERS) -> tw.TimestampToken:
    """Return a token of the operator 'holder' that nobody has counted yet."""
    return tw.TimestampToken(ledger, domain, LOCATION, time, PortOwner("holder"))


def net(ledger: TokenLedger) -> dict[Any, int]:
    """Return the net changes since the last time, by time; all are at the location of the tokens."""
    counts: Counter[Any] = Counter()
    for (location, time), difference in ledger.drain():
        assert location == LOCATION
        counts[time] += difference
    return {time: count for time, count in counts.items() if count}


@law_settings(100)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["clone", "delayed", "downgrade", "discard", "with"]), st.integers(0, 9), st.integers(0, 3)
        ),
        max_size=12,
    )
)
def test_counts_are_those_of_the_live_tokens(actions: list[tuple[str, int, int]]) -> None:
    """After any sequence of actions, the changes add up to the tokens that are live, time by time, and end at zero."""
    ledger = TokenLedger()
    live = [token_at(0, ledger)]
    counted: Counter[Any] = Counter({0: 1})
    for action, which, later in actions:
        if not live:
            break
        token = live[which % len(live)]
        time = token.time + later
        match action:
            case "clone":
                live.append(token.clone())
            case "delayed":
                live.append(token.delayed(time))
                assert live[-1].time == time
            case "downgrade":
                token.downgrade(time)
                assert token.time == time
            case "discard":
                token.discard()
            case _:
                with token as entered:
                    assert entered is token
        live = [each for each in live if each.is_live]
        for changed, difference in net(ledger).items():
            counted[changed] += difference
        assert +counted == Counter(each.time for each in live)
        assert not -counted
    for token in live:
        token.discard()
    for changed, difference in net(ledger).items():
        counted[changed] += difference
    assert not +counted
    assert not -counted
    assert not ledger.leaks


@pytest.mark.parametrize("action", ["delayed", "downgrade"])
@pytest.mark.parametrize(
    ("domain", "start", "to", "reason"),
    [
        (INTEGERS, 3, 2, "a token only moves forward"),
        (ROUNDS, (0, 5), (1, 2), "a token only moves forward"),
        (ROUNDS, (1, 0), (0, 9), "a token only moves forward"),
        (INTEGERS, 3, "4", r"that is no time of this scope, where times are whole numbers from 0 to 2\^63 - 1"),
        (INTEGERS, 3, 4.0, "that is no time of this scope"),
        (INTEGERS, 0, True, "that is no time of this scope"),
        (INTEGERS, 3, None, "that is no time of this scope"),
        (INTEGERS, 3, (3, 0), "that is no time of this scope"),
        (INTEGERS, 3, 2**63, "that is no time of this scope"),
        (
            ROUNDS,
            (0, 5),
            6,
            r"that is no time of this scope, where times are pairs of whole numbers from 0 to 2\^63 - 1 and whole",
        ),
        (ROUNDS, (0, 5), (0, 5, 0), "that is no time of this scope"),
        (ROUNDS, (0, 5), [0, 6], "that is no time of this scope"),
    ],
)
def test_a_wrong_move_is_refused_and_changes_nothing(
    action: str, domain: TimeDomain, start: Time, to: Any, reason: str
) -> None:
    """Backwards (in the partial order), or to what is no time of the scope: the error names operator and times."""
    ledger = TokenLedger()
    token = token_at(start, ledger, domain)
    with pytest.raises(
        tw.errors.TokenError, match=rf"operator 'holder' cannot (delay|downgrade) a token .*{reason}"
    ) as refusal:
        getattr(token, action)(to)

    assert f"a token for time {start!r} to {to!r}" in str(refusal.value)
    assert (token.time, token.is_live) == (start, True)
    assert net(ledger) == {}
    token.discard()
    assert net(ledger) == {start: -1}


@pytest.mark.parametrize(
    ("use", "changes"),
    [
        (lambda token: token.clone().time, [((LOCATION, 3), 1)]),
        (lambda token: token.delayed(7).time, [((LOCATION, 7), 1)]),
        (lambda token: token.downgrade(7), [((LOCATION, 7), 1), ((LOCATION, 3), -1)]),
        (lambda token: token.discard(), [((LOCATION, 3), -1)]),
    ],
)
def test_each_use_is_one_change_under_the_lock(use: Any, changes: list[Any]) -> None:
    """Another thread sees all of it or nothing, and cannot use the same token at the same moment."""
    seen: list[tuple[bool, list[Any]]] = []
    ledger = TokenLedger(lambda: seen.append((ledger.lock.locked(), list(ledger.drain()))))
    token = token_at(3, ledger)
    use(token)
    assert seen[0] == (True, changes)
    if token.is_live:
        token.discard()


def test_downgrading_to_the_same_time_is_no_change() -> None:
    """It is allowed, and nobody is told."""
    ledger = TokenLedger()
    token = token_at(3, ledger)
    token.downgrade(3)
    assert ledger.is_empty
    token.discard()


@pytest.mark.parametrize(
    "use",
    [
        lambda token: token.discard(),
        lambda token: token.clone(),
        lambda token: token.delayed(9),
        lambda token: token.downgrade(9),
        lambda token: token.downgrade(3),
    ],
)
def test_a_discarded_token_is_of_no_use(use: Any) -> None:
    """Everything that one could do with it raises, naming operator and time; it is never counted twice."""
    ledger = TokenLedger()
    token = token_at(3, ledger)
    token.discard()
    with raises(tw.errors.TokenError):
        use(token)
    assert (token.time, token.is_live) == (3, False)
    assert net(ledger) == {3: -1}


def test_leaving_a_with_block_discards() -> None:
    """Also when the block raises; a token that the block has discarded itself is left alone."""
    ledger = TokenLedger()
    with pytest.raises(RuntimeError, match="stop"), token_at(1, ledger):
        raise RuntimeError("stop")
    with token_at(2, ledger) as token:
        token.discard()
    with token_at(3, ledger) as token:
        token.downgrade(4)
    assert net(ledger) == {1: -1, 2: -1, 3: -1}


def test_clones_are_independent() -> None:
    """What is done to one does nothing to the other."""
    ledger = TokenLedger()
    token = token_at(1, ledger)
    clone = token.clone()
    token.downgrade(5)
    assert (token.time, clone.time) == (5, 1)
    token.discard()
    assert clone.is_live
    clone.discard()
    assert net(ledger) == {1: -1}


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_token_cannot_be_copied_or_pickled(duplicate: Any) -> None:
    """It exists once, on its worker; the error says what to do instead, and the token stays as it is."""
    token = token_at(1, TokenLedger())
    message = "a token of operator 'holder' cannot be copied or sent to another process: send the records, or clone"
    with pytest.raises(tw.errors.TokenError, match=message):
        duplicate(token)
    token.discard()


def test_a_token_is_shown_with_its_time_and_operator() -> None:
    """Printing one in a debugger says what it is."""
    token = token_at(1, TokenLedger())
    assert repr(token) == "TimestampToken(time=1, operator='holder')"
    token.discard()
    assert repr(token) == "TimestampToken(time=1, operator='holder', discarded)"
