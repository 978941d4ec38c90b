"""Waiting for a condition in an asyncio actor."""

import asyncio

import pytest

from tidewheel.transport.change_signal import ChangeSignal


def test_it_wakes_everybody_when_the_condition_holds() -> None:
    """A notification without the condition wakes nobody for good; one with it wakes all who wait."""

    async def scenario() -> None:
        signal, facts = ChangeSignal(), set[int]()
        waiting = [asyncio.create_task(signal.wait_until(lambda: 1 in facts, 60)) for _ in range(3)]
        for fact in (0, 1):
            await asyncio.sleep(0)
            facts.add(fact)
            signal.notify()
        assert await asyncio.gather(*waiting) == [True] * 3

    asyncio.run(scenario())


def test_notifications_are_checked_once_and_wake_nobody_for_nothing() -> None:
    """Many notifications in one turn of the loop are one check, and a wait whose condition is false sleeps on."""

    async def scenario() -> None:
        signal, checks = ChangeSignal(), list[bool]()
        holds = False

        def condition() -> bool:
            checks.append(holds)
            return holds

        waiting = asyncio.create_task(signal.wait_until(condition, 60))
        await asyncio.sleep(0)
        for _ in range(3):
            signal.notify()
            signal.notify()
            await asyncio.sleep(0)
        assert checks == [False] * 4  # one as it began to wait
        holds = True
        signal.notify()
        assert await waiting
        signal.notify()
        await asyncio.sleep(0)
        assert checks == [False] * 4 + [True] * 2, "a wait that is over is not checked any more"

    asyncio.run(scenario())


def test_a_condition_that_is_false_again_when_its_wait_wakes_is_waited_for_again() -> None:
    """A true answer is true when it is given."""

    async def scenario() -> None:
        signal, facts = ChangeSignal(), set[int]()
        waiting = asyncio.create_task(signal.wait_until(lambda: 1 in facts, 60))
        await asyncio.sleep(0)
        facts.add(1)
        signal.notify()
        asyncio.get_running_loop().call_soon(facts.clear)  # after the check, before the wait goes on
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
        facts.add(1)
        signal.notify()
        assert await waiting

    asyncio.run(scenario())


def test_it_gives_up_when_the_time_is_over() -> None:
    """The answer is what the condition is in the end; with no time at all it is what it is now."""

    async def scenario() -> None:
        assert not await ChangeSignal().wait_until(lambda: False, 0.001)
        assert not await ChangeSignal().wait_until(lambda: False, -1)
        assert await ChangeSignal().wait_until(lambda: True, 0)

    asyncio.run(scenario())


def test_a_condition_that_fails_fails_its_own_wait_only() -> None:
    """The error reaches the coroutine that waits for the condition; the others go on waiting."""

    async def scenario() -> None:
        signal, facts = ChangeSignal(), dict[str, bool]()
        other = asyncio.create_task(signal.wait_until(lambda: facts.get("done", False), 60))
        failing = asyncio.create_task(signal.wait_until(lambda: bool(facts and facts["missing"]), 60))
        await asyncio.sleep(0)
        facts["begun"] = True
        signal.notify()
        with pytest.raises(KeyError, match="missing"):
            await failing
        assert not other.done()
        facts["done"] = True
        signal.notify()
        assert await other

    asyncio.run(scenario())
