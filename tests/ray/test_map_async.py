"""map_async on Ray actors: calls on each worker, and no thread of theirs once their dataflow has ended."""

import asyncio
import threading

import pytest

import tidewheel as tw
from tests.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0


async def reply(number: int) -> int:
    """Return a square after a while; never for 0, and for what is negative an error."""
    if number < 0:
        raise ConnectionError(f"no answer for {number}")
    await asyncio.sleep(0.01 if number else 3600)
    return number * number


def call_threads(_: object) -> tuple[str, ...]:
    """Return the names of the threads in this process on which operators call coroutines."""
    return tuple(sorted(t.name for t in threading.enumerate() if t.name.startswith("tidewheel-async-")))


def looking() -> tw.Dataflow:
    """Return a dataflow that tells which threads there are on each worker."""
    flow = tw.Dataflow("looking")
    flow.input("looks").broadcast().map(call_threads).capture("threads").probe("looked")
    return flow


def asking(name: str) -> tw.Dataflow:
    """Return a dataflow that asks for numbers."""
    flow = tw.Dataflow(name)
    flow.input("numbers").exchange(lambda n: n).map_async(reply).capture("squares").probe("done")
    return flow


class Looks:
    """Asks a job again and again which threads there are."""

    def __init__(self, job: tw.types.Job) -> None:
        self._job = job
        self._epoch = 0

    def now(self) -> list[tuple[str, ...]]:
        looks = self._job.input("looks")
        looks.send([None])
        self._epoch += 1
        looks.advance_to(self._epoch)
        self._job.probe("looked").wait_until(self._epoch, DEADLINE_S)
        found = [entry for entry in self._job.captured("threads") if entry.time == self._epoch - 1]
        return [names for entry in found for names in entry.batch]


def test_calls_on_workers_and_their_threads() -> None:
    """Results are those of any engine; a dataflow that is dropped, or fails, leaves no thread in the workers."""
    nobody: list[tuple[str, ...]] = [(), ()]
    with tw.run(looking(), workers=2) as job:
        looks = Looks(job)
        assert looks.now() == nobody
        ends = job.add(asking("ends"))
        with ends.input("numbers") as numbers:
            for epoch in range(3):
                numbers.advance_to(epoch)
                numbers.send(list(range(10 * epoch + 1, 10 * epoch + 11)))
        ends.wait(DEADLINE_S)
        squares = sorted((entry.time, n) for entry in ends.captured("squares") for n in entry.batch)
        assert squares == [((n - 1) // 10, n * n) for n in range(1, 31)]
        assert {len(names) for names in looks.now()} == {1}
        job.drop("ends")
        assert looks.now() == nobody

        dropped = job.add(asking("dropped"))
        dropped.input("numbers").send([0, 1, 2, 3])
        assert eventually(lambda: looks.now() != nobody, DEADLINE_S)
        assert list(dropped.probe("done").frontier) == [0]
        job.drop("dropped")
        assert looks.now() == nobody

        fails = job.add(asking("fails"))
        fails.input("numbers").advance_to(4)
        fails.input("numbers").send([0, 5, -1])
        with pytest.raises(tw.JobError, match="at time 4: ConnectionError: no answer for -1") as caught:
            fails.wait(DEADLINE_S)
        assert (caught.value.operator, caught.value.time) == ("map_async", 4)
        assert "in reply" in caught.value.traceback_text
        job.drop("fails")
        assert eventually(lambda: looks.now() == nobody, DEADLINE_S)
        job.input("looks").close()
        job.wait(DEADLINE_S)
