"""Bundles of batches on their way to an actor: each batch has its own result, whatever else is in its bundle."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from ray.exceptions import ActorDiedError

from tidewheel.host.log_lines import LogSettings
from tidewheel.operators.pools.members import MOST_CALLS, SURE_CALLS
from tidewheel.operators.pools.model_actor import Failure, ModelActor
from tidewheel.operators.pools.pool_calls import PoolCalls
from tidewheel.operators.pools.ray_pool_handle import RayPoolActor

DEADLINE_S = 30.0


class Actor:
    """Stands for the handle of an actor, which makes one call at a time until it dies; odd numbers raise there."""

    def __init__(self, random: Random, kills: list[int]) -> None:
        self._random, self._kills = random, kills
        self._turn = asyncio.Lock()
        self._is_dead = False
        self.bundles: list[int] = []
        self.most = 0
        self._under_way = 0

    @property
    def call(self) -> "Actor":
        return self

    async def remote(self, batches: Sequence[list[int]]) -> tuple[list[Any], float]:
        self.bundles.append(len(batches))
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        try:
            async with self._turn:
                for _ in range(self._random.randrange(4)):
                    await asyncio.sleep(0)
                self._is_dead |= bool(self._kills) and self._random.random() < 0.2 and bool(self._kills.pop() or True)
                if self._is_dead:
                    raise ActorDiedError
                outcomes = [Failure(ValueError(n)) if n % 2 else [n * n] for [n] in batches]
                return outcomes, 0.0
        finally:
            self._under_way -= 1


class Pool:
    """A pool of such actors."""

    def __init__(self, random: Random, replicas: int, kills: int) -> None:
        self.random, self.replicas, self.kills = random, replicas, [0] * kills
        self.actors: list[Actor] = []

    async def join(self, number: int) -> RayPoolActor:
        self.actors.append(Actor(self.random, self.kills))
        return RayPoolActor(self.actors[-1])


@given(st.integers(0, 1 << 32).map(Random), st.integers(1, 4), st.integers(0, 3), st.integers(1, 80))
def test_each_batch_has_its_own_result(random: Random, replicas: int, kills: int, count: int) -> None:
    """A model that raises for one fails no other, and batches of an actor that dies are repeated."""
    pool = Pool(random, replicas, kills)

    async def all_of_them() -> list[Any]:
        async with PoolCalls(pool, 0, 1) as calls, asyncio.timeout(DEADLINE_S):
            return list(await asyncio.gather(*(calls([n]) for n in range(count)), return_exceptions=True))

    found = asyncio.run(all_of_them())
    assert found[::2] == [[n * n] for n in range(0, count, 2)]
    assert [(type(one), one.args) for one in found[1::2]] == [(ValueError, (n,)) for n in range(1, count, 2)]
    assert max(actor.most for actor in pool.actors) <= SURE_CALLS
    assert max(size for actor in pool.actors for size in actor.bundles) <= MOST_CALLS // SURE_CALLS


class Picky(Actor):
    """Fails each bundle that has the number 3, as Ray does if a result cannot be pickled."""

    async def remote(self, batches: Sequence[list[int]]) -> tuple[list[Any], float]:
        if [3] in batches:
            raise TypeError("cannot pickle '_thread.lock' object")
        return await super().remote(batches)


def test_a_result_that_cannot_be_pickled_harms_no_other() -> None:
    """The other batches of its bundle are called for again."""

    async def all_of_them() -> list[Any]:
        actor = RayPoolActor(Picky(Random(0), []))
        async with asyncio.timeout(DEADLINE_S):
            return list(await asyncio.gather(*(actor.call([n]) for n in range(5)), return_exceptions=True))

    assert [type(one).__name__ for one in asyncio.run(all_of_them())] == [
        "list",
        "ValueError",
        "list",
        "TypeError",
        "list",
    ]


def one_number(numbers: Any) -> Any:
    buffer[:] = numbers
    return buffer


buffer = np.zeros(1)


class TwoArguments(Exception):  # noqa: N818 - named for its fault
    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def raise_two(numbers: Any) -> Any:
    raise TwoArguments("no ", "weights")


def test_results_of_a_bundle_do_not_share_an_array() -> None:
    """A model may use the array of one result for the next one."""
    outcomes, _ = ModelActor("model", lambda: one_number, LogSettings.here()).call([np.array([n]) for n in range(3)])
    assert [one.tolist() for one in outcomes] == [[0.0], [1.0], [2.0]]


def test_an_error_that_cannot_be_unpickled_is_told_in_words() -> None:
    """Its class has a constructor with other arguments than the error's `args`."""
    [failure], _ = ModelActor("model", lambda: raise_two, LogSettings.here()).call([[1]])
    assert (type(failure.error), failure.error.args) == (RuntimeError, ("TwoArguments: no weights",))
