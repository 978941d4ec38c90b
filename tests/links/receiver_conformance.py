"""The promises of every receiver about waking up: at once, never for nothing, and no call to wake is lost."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest

from tests.links.link_kind import Arrivals, Task, letter
from tidewheel.runtime.messages.envelope import Envelope
from tidewheel.transport.link import Receiver

LONG_S = 20.0
AT_ONCE_S = 5.0
"""Far below `LONG_S`, far above what a busy machine takes to switch threads."""


class ReceiverConformance:
    """The tests of one receiver, to which nobody is connected."""

    def make(self) -> Receiver[Envelope]:
        """Return a new receiver; it is closed by us."""
        raise NotImplementedError

    @pytest.fixture
    def receiver(self) -> Iterator[Receiver[Envelope]]:
        with closing(self.make()) as receiver:
            yield receiver

    @pytest.fixture
    def frequent_switches(self) -> Iterator[None]:
        """Let threads take turns far more often than usual, so that they meet in narrow places."""
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        yield
        sys.setswitchinterval(before)

    def test_it_returns_at_once_when_woken(self, receiver: Receiver[Envelope]) -> None:
        """Whoever waits for long returns as soon as another thread wakes it, hundreds of times."""
        waiting, returned = threading.Event(), threading.Event()

        def wake_often() -> None:
            for _ in range(300):
                assert waiting.wait(LONG_S)
                waiting.clear()
                receiver.wake()
                assert returned.wait(LONG_S)
                returned.clear()

        waker = Task(wake_often)
        for _ in range(300):
            began_s = time.monotonic()
            waiting.set()
            assert receiver.receive(LONG_S) == []
            assert time.monotonic() - began_s < AT_ONCE_S
            returned.set()
        waker.join()

    def test_a_wake_before_counts_once(self, receiver: Receiver[Envelope]) -> None:
        """The next call returns at once; many wakes before it are one, so the one after waits."""
        for _ in range(100):
            receiver.wake()
        began_s = time.monotonic()
        assert receiver.receive(LONG_S) == []
        assert time.monotonic() - began_s < AT_ONCE_S
        began_s = time.monotonic()
        assert receiver.receive(0.2) == []
        assert time.monotonic() - began_s > 0.15

    @pytest.mark.usefixtures("frequent_switches")
    def test_no_wake_is_lost(self, receiver: Receiver[Envelope]) -> None:
        """Four threads publish something, wake, and wait until it was seen: thousands of rounds, no stall."""
        rounds, hands = 1500, 4
        published = [0] * hands
        seen = [0] * hands
        told = [threading.Event() for _ in range(hands)]

        def publish(hand: int) -> None:
            for number in range(1, rounds + 1):
                published[hand] = number
                receiver.wake()
                assert told[hand].wait(LONG_S)
                told[hand].clear()

        tasks = [Task(partial(publish, hand)) for hand in range(hands)]
        while seen != [rounds] * hands:
            began_s = time.monotonic()
            receiver.receive(LONG_S)
            assert time.monotonic() - began_s < AT_ONCE_S, f"a wake was lost: {published} published, {seen} seen"
            for hand in range(hands):
                if published[hand] != seen[hand]:
                    seen[hand] = published[hand]
                    told[hand].set()
        for task in tasks:
            task.join()

    @pytest.mark.usefixtures("frequent_switches")
    def test_nothing_delivered_is_lost_or_late(self, receiver: Receiver[Envelope]) -> None:
        """Threads that deliver while others wake: everything comes, each thread's in its order, without a stall."""
        share, hands = 2000, 3

        def deliver(hand: int) -> None:
            for sequence in range(share):
                receiver.deliver(letter(hand, sequence, [sequence]))

        def wake_often() -> None:
            for _ in range(share):
                receiver.wake()

        tasks = [Task(partial(deliver, hand)) for hand in range(hands)] + [Task(wake_often)]
        began_s = time.monotonic()
        arrivals = Arrivals(receiver).take(hands * share)
        assert time.monotonic() - began_s < AT_ONCE_S
        for task in tasks:
            task.join()
        assert arrivals.inbox.duplicates == 0
        for hand in range(hands):
            assert [one.sequence for one in arrivals.raw if one.sender == hand] == list(range(share))

    @pytest.mark.usefixtures("frequent_switches")
    def test_delivered_in_step(self, receiver: Receiver[Envelope]) -> None:
        """Three threads deliver one each at the same time, and go on when all three came: one lost wake would stall."""
        rounds, hands = 3000, 3
        begun = [threading.Semaphore(0) for _ in range(hands)]

        def deliver(hand: int) -> None:
            for sequence in range(rounds):
                assert begun[hand].acquire(timeout=LONG_S)
                receiver.deliver(letter(hand, sequence))

        tasks = [Task(partial(deliver, hand)) for hand in range(hands)]
        for _ in range(rounds):
            for semaphore in begun:
                semaphore.release()
            count = 0
            while count < hands:
                began_s = time.monotonic()
                count += len(receiver.receive(LONG_S))
                assert time.monotonic() - began_s < AT_ONCE_S, f"a wake was lost: {count} of {hands} came"
        for task in tasks:
            task.join()

    def test_what_comes_while_it_takes_is_for_the_next_call(
        self, receiver: Receiver[Envelope], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The narrowest place: another thread delivers just after what was there before has been taken."""
        take = receiver._take_delivered

        def take_and_deliver() -> list[Envelope]:
            monkeypatch.undo()
            taken = take()
            receiver.deliver(letter(1, 1))
            return taken

        receiver.deliver(letter(1, 0))
        monkeypatch.setattr(receiver, "_take_delivered", take_and_deliver)
        assert receiver.receive(LONG_S) == [letter(1, 0)]
        began_s = time.monotonic()
        assert receiver.receive(LONG_S) == [letter(1, 1)]
        assert time.monotonic() - began_s < AT_ONCE_S

    def test_waiting_costs_nothing(self, receiver: Receiver[Envelope]) -> None:
        """A second without news takes a second, and no processor time, on any thread."""
        receiver.wake()
        receiver.receive(1.0)
        began_s, used_s = time.monotonic(), time.process_time()
        assert receiver.receive(1.0) == []
        assert time.process_time() - used_s < 0.1
        assert time.monotonic() - began_s > 0.9

    def test_no_time_is_no_wait(self, receiver: Receiver[Envelope]) -> None:
        """With a timeout of 0 a thousand calls take no time to speak of, before and after something came."""
        began_s = time.monotonic()
        assert [receiver.receive(0.0) for _ in range(500)] == [[]] * 500
        receiver.deliver(letter(1, 0))
        assert receiver.receive(0.0) == [letter(1, 0)]
        assert [receiver.receive(0.0) for _ in range(500)] == [[]] * 500
        assert time.monotonic() - began_s < AT_ONCE_S

    def test_it_can_be_woken_after_it_was_closed(self, receiver: Receiver[Envelope]) -> None:
        """Threads that have not heard of the end disturb nobody; closing twice is no error."""
        receiver.close()
        receiver.close()
        receiver.wake()
        receiver.deliver(letter(1, 0))
