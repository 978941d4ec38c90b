"""Bundles of batches on their way to an actor: each batch has its own result, whatever else is in its bundle."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from ray.exceptions import ActorDiedError

from tidewheel.operators.pools.members import MOST_CALLS, SURE_CALLS
from tidewheel.operators.pools.model_actor import Failure
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
