"""The ledger of what happened to tokens."""

import threading

from tests.kit.messages import raises
from tidewheel.progress import Change
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.tokens.token_ledger import Leak, Refusal, TokenLedger


def test_groups_come_out_in_order_and_once() -> None:
    """What was recorded is drained as it came, and then the ledger is empty."""
    ledger = TokenLedger()
    empty = [ledger.is_empty]
    ledger.record(((1, 0), 1), ((1, 0), -1))
    ledger.record(((2, 0), 1))
    empty.append(ledger.is_empty)
    assert list(ledger.drain()) == [((1, 0), 1), ((1, 0), -1), ((2, 0), 1)]
    empty.append(ledger.is_empty)
    assert list(ledger.drain()) == []
    assert empty == [True, False, True]


def test_a_group_that_comes_during_a_drain_is_taken_whole_or_not_at_all() -> None:
    """Other threads may record at any moment; a downgrade is never seen half done."""
    ledger = TokenLedger()
    groups = 20_000

    def downgrade(location: int) -> None:
        for time in range(groups):
            ledger.record(((location, time + 1), 1), ((location, time), -1))

    threads = [threading.Thread(target=downgrade, args=(location,)) for location in (1, 2)]
    for thread in threads:
        thread.start()
    taken: list[list[Change]] = []
    while any(thread.is_alive() for thread in threads) or not ledger.is_empty:
        taken.append(ledger.drain())
    for changes in taken:
        for (pointstamp, gained), ((location, time), lost) in zip(changes[::2], changes[1::2], strict=True):
            assert (pointstamp, gained, lost) == ((location, time + 1), 1, -1)
    assert sum(map(len, taken)) == 4 * groups


def test_every_record_wakes_the_worker() -> None:
    """A worker that sleeps hears of every change, also of a leak."""
    woken: list[int] = []
    ledger = TokenLedger(lambda: woken.append(1))
    ledger.record(((1, 0), 1))
    ledger.record_drop((1, 0), None, "holder", has_sent=False)
    assert len(woken) == 2


def test_leaks_are_drained_apart() -> None:
    """A leak is reported once, and its discarding is counted like any other."""
    ledger = TokenLedger()
    ledger.record_drop((1, 7), None, "holder", has_sent=False)
    assert list(ledger.drain()) == [((1, 7), -1)]
    assert list(ledger.leaks) == [Leak("holder", 7)]


def test_a_refusal_is_kept_for_the_step_unless_the_step_hears_of_it() -> None:
    """Outside of a step, and on another thread, it wakes the worker, and the ledger is not empty; within, it raises."""
    woken: list[bool] = []
    ledger = TokenLedger(lambda: woken.append(True))
    ledger.begin_step()
    with raises(TokenError):
        ledger.refuse("ask", 3, "no")
    empty = [ledger.is_empty]
    ledger.stepping = None
    with raises(TokenError) as caught:
        ledger.refuse("ask", 3, "no")
    empty.append(ledger.is_empty)
    assert empty == [True, False]
    assert woken == [True]
    assert list(ledger.refusals) == [Refusal("ask", 3, caught.value)]
