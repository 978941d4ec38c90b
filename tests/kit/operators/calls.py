"""A server that answers when a test lets it, for tests of operators that call coroutines."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.runtime.one_operator import DEADLINE_S, Results, captured, feed, settle
from tests.waiting import eventually


class Server:
    """Replies with the square of a number, once that was let go; from any number of event loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gates: dict[int, list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}
        self._open: set[int] = set()
        self.begun: list[int] = []
        self.cancelled: list[int] = []

    async def reply(self, number: int) -> int:
        gate = asyncio.Event()
        with self._lock:
            if number in self._open:
                gate.set()
            self._gates.setdefault(number, []).append((asyncio.get_running_loop(), gate))
            self.begun.append(number)
        try:
            await gate.wait()
        except asyncio.CancelledError:
            self.cancelled.append(number)
            raise
        return number * number

    def let_go(self, *numbers: int) -> None:
        with self._lock:
            self._open.update(numbers)
            gates = [gate for number in numbers for gate in self._gates.pop(number, [])]
        for loop, gate in gates:
            loop.call_soon_threadsafe(gate.set)


def call_threads() -> list[str]:
    """Return the names of the threads on which operators call coroutines."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("tidewheel-async-")]


def within_deadline(job: tw.types.Job, condition: Callable[[], bool]) -> bool:
    """Run a local job until a condition comes true."""

    def settled() -> bool:
        settle(job)
        return condition()

    return eventually(settled, DEADLINE_S)


def asking(function: Any, **options: Any) -> tw.Dataflow:
    """Return a dataflow that calls a function for numbers."""
    flow = tw.Dataflow("test")
    flow.input("numbers").map_async(function, **options).probe("done").capture("results")
    return flow


def job_of(function: Any, *epochs: list[int], workers: int = 1, **options: Any) -> tw.types.Job:
    """Return a running job that calls a function for the numbers of each epoch."""
    job = tw.run(asking(function, **options), workers=workers, engine="local")
    feed(job, *epochs)
    return job


def failure_of(function: Any, *epochs: list[int], **options: Any) -> tw.JobError:
    """Return the error of a job that calls a function, and see that it leaves nothing."""
    with pytest.raises(tw.JobError) as caught, job_of(function, *epochs, **options) as job:
        job.wait(DEADLINE_S)
    assert call_threads() == []
    return caught.value


def run_to_end(function: Any, *epochs: list[int], **options: Any) -> Results:
    """Return what comes out."""
    with job_of(function, *epochs, **options) as job:
        job.wait(DEADLINE_S)
        return captured(job)


async def refuse(number: int) -> int:
    """Refuse one number."""
    if number == 3:
        raise ConnectionError(f"no answer for {number}")
    return number
