"""The calls of a worker to a pool: each has one result, whatever actors die, and no actor has more than its share."""

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.operators.pools.members import AHEAD_S, MOST_CALLS, SURE_CALLS
from tidewheel.operators.pools.pool_calls import ActorLost, PoolCalls

DEADLINE_S = 30.0
POISON = -1


class Actor:
    """An actor that answers after a while, unless it dies, and then all that it has is lost."""

    def __init__(self, pool: "Pool", number: int) -> None:
        self._pool = pool
        self.number = number
        self.batch_s = pool.batch_s
        self.died = asyncio.Event()
        self.batches: list[Any] = []

    async def call(self, batch: Any) -> Any:
        [number] = batch
        return [await self._square(number)]

    async def _square(self, batch: int) -> int:
        self.batches.append(batch)
        self._pool.most = max(self._pool.most, len(self.batches))
        self._pool.beside[batch].append(len(self.batches) - 1)
        try:
            await self._pool.some_turns()
            if batch == POISON or (self._pool.kills > 0 and self._pool.random.random() < 0.2):
                self._pool.kills -= batch != POISON
                self.died.set()
            if self.died.is_set():
                raise ActorLost(f"actor {self.number} has died")
            return batch * batch
        finally:
            self.batches.remove(batch)


class Pool:
    """A pool whose actors come up after a while, each time that they have died."""

    def __init__(self, random: Random, replicas: int, kills: int, batch_s: float = 0.0) -> None:
        self.random = random
        self.batch_s = batch_s
        self.replicas = replicas
        self.kills = kills
        self.most = 0
        self.started: Counter[int] = Counter()
        self.beside: dict[Any, list[int]] = {}

    async def join(self, number: int) -> Actor:
        await self.some_turns()
        self.started[number] += 1
        return Actor(self, number)

    async def some_turns(self) -> None:
        for _ in range(self.random.randrange(6)):
            await asyncio.sleep(0)


def results_of(pool: Pool, batches: list[int]) -> list[Any]:
    """Call a pool for all batches at once; return what each call has returned or raised."""
    pool.beside.update((batch, []) for batch in batches)

    async def all_of_them() -> list[Any]:
        async with PoolCalls(pool, 0, 1) as calls, asyncio.timeout(DEADLINE_S):
            made = await asyncio.gather(*(calls([batch]) for batch in batches), return_exceptions=True)
            return [one if isinstance(one, BaseException) else one[0] for one in made]

    return asyncio.run(all_of_them())


@pytest.mark.parametrize(("batch_s", "most"), [(0.0, MOST_CALLS), (AHEAD_S, SURE_CALLS)])
@given(st.integers(0, 1 << 32).map(Random), st.integers(1, 4), st.integers(0, 3), st.integers(1, 60))
def test_each_call_has_its_result_whatever_dies(
    batch_s: float, most: int, random: Random, replicas: int, kills: int, count: int
) -> None:
    """No actor has more calls than its share, which is larger if it is fast, and those that have died are not used."""
    pool = Pool(random, replicas, kills, batch_s)
    assert results_of(pool, list(range(count))) == [number**2 for number in range(count)]
    assert pool.most <= most
    assert sum(pool.started.values()) <= replicas + kills


@given(st.integers(0, 1 << 32).map(Random), st.integers(1, 3), st.integers(1, 20))
def test_a_batch_that_ends_its_actors_harms_no_other(random: Random, replicas: int, count: int) -> None:
    """It fails in the end. Each repetition has an actor for itself."""
    pool = Pool(random, replicas, 0)
    poisoned, *others = results_of(pool, [POISON, *range(count)])
    assert others == [number**2 for number in range(count)]
    assert isinstance(poisoned, RuntimeError)
    assert len(pool.beside[POISON]) == 4
    assert pool.beside[POISON][1:] == [0, 0, 0]
    repeated = sum(len(made) - 1 for batch, made in pool.beside.items() if batch != POISON)
    assert repeated < MOST_CALLS, "only those that were beside its first call"


def test_an_error_of_the_pool_is_that_of_all_calls() -> None:
    """They do not wait for ever for actors that never come up."""

    class Broken(Pool):
        async def join(self, number: int) -> Actor:
            raise OSError("no cluster")

    found = results_of(Broken(Random(0), 2, 0), [1, 2, 3])
    assert [type(one) for one in found] == [OSError] * 3


def test_what_a_model_raises_is_raised_once() -> None:
    """The actor is not lost by it."""

    class Refusing(Actor):
        async def call(self, batch: Any) -> Any:
            if batch == [2]:
                raise ValueError(batch)
            return await super().call(batch)

    class Refused(Pool):
        async def join(self, number: int) -> Actor:
            self.started[number] += 1
            return Refusing(self, number)

    pool = Refused(Random(0), 1, 0)
    one, two, three = results_of(pool, [1, 2, 3])
    assert (one, three) == (1, 9)
    assert isinstance(two, ValueError)
    assert pool.started == {0: 1}


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_workers_prefer_different_actors(workers: int) -> None:
    """Otherwise the first calls of all workers would wait at one actor."""
    called: list[int] = []

    class Noting(Actor):
        async def call(self, batch: Any) -> Any:
            called.append(self.number)

    class Ready(Pool):
        async def join(self, number: int) -> Actor:
            return Noting(self, number)

    async def call_once(worker: int) -> None:
        async with PoolCalls(Ready(Random(0), 4, 0), worker, workers) as calls:
            await asyncio.sleep(0)  # all actors are up
            await calls([0])

    for worker in range(workers):
        asyncio.run(call_once(worker))
    assert max(Counter(called).values()) <= max(1, workers // 4)
