"""The keyed count of `jobs/recovery.py`, as a dataflow of tidewheel."""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tidewheel as tw
from benchmarks.measuring.recovery_marks import Marks
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.description.shards import owners_of

STRIDE = 7919
"""A prime number, so that a walk by it visits all keys."""
_EPOCHS_AHEAD = 8


@dataclass(frozen=True, slots=True)
class Work:
    """What is counted.

    Attributes:
        keys: how many different keys there are.
        batch: how many records a batch has.
        kept: whether all keys have a count from the beginning, and a text of 64 bytes each; else a count alone.
        rate: how many records a second there are, of all workers; None for as many as can be counted.
    """

    keys: int
    batch: int = 1000
    kept: bool = False
    rate: float | None = None


def walk(work: Work, worker: int, workers: int) -> list[int]:
    """Return the keys of one worker's records, which it repeats."""
    first = worker * work.keys // workers
    return [(first + number) * STRIDE % work.keys for number in range(min(work.keys, 1_000_000))]


def counting(work: Work, marks: Path, *, fed: bool = False) -> tw.Dataflow:
    """Return the dataflow, whose workers write marks; the driver feeds it, or an operator makes the records."""
    flow = tw.Dataflow("keyed count")
    if fed:
        numbers = flow.input("numbers", int)
    else:
        (numbers,) = flow.operator([], 1, partial(build_repeat, work), name="repeat")
    build = partial(build_count, work, str(marks))
    numbers.unary(build, exchange=lambda key: key, name="count").probe("counted")
    return flow


def build_repeat(work: Work, context: tw.OperatorContext) -> Schedule:
    """Build the operator that sends batches of keys for ever, each at an epoch of its own.

    With a rate, epochs are when their batches are due: microseconds by the machine's monotonic clock.
    """
    keys = walk(work, context.worker, context.workers)
    place: dict[str, Any] = context.state(
        "place", lambda: {"token": context.token(), "sent": 0, "began": time.monotonic()}
    )
    every_s = 0 if work.rate is None else context.workers * work.batch / work.rate
    begun: deque[int] = deque(maxlen=_EPOCHS_AHEAD)
    context.activate()

    def send(output: tw.OutputPort, epoch: int) -> None:
        place["token"].downgrade(epoch)
        at = place["sent"] * work.batch % len(keys)
        place["sent"] += 1
        output.send(place["token"], keys[at : at + work.batch])

    def unlimited(output: tw.OutputPort) -> None:
        if len(begun) < _EPOCHS_AHEAD or not context.probe("counted").less_equal(begun[0]):
            begun.append(place["sent"])
            send(output, begun[-1])
            context.activate()

    def timed(output: tw.OutputPort) -> None:
        due = place["began"] + place["sent"] * every_s
        if due <= time.monotonic():
            send(output, int(due * 1e6))
            context.activate()
        else:
            context.activator.after(due - time.monotonic())

    return unlimited if work.rate is None else timed


def build_count(work: Work, marks: str, context: tw.OperatorContext) -> Schedule:
    """Build the operator that counts the records of each key, and sends each record's key with its count."""
    counts = context.keyed_state("counts", int)
    if work.kept and not counts:
        counts.update(own_texts(work.keys, context.worker, context.workers))
    written = Marks(marks, f"worker-{context.worker}")

    def count_alone(keys: list[int]) -> list[tuple[int, int]]:
        sent = []
        for key in keys:
            counts[key] = now = counts[key] + 1
            sent.append((key, now))
        return sent

    def count_beside(keys: list[int]) -> list[tuple[int, int]]:
        sent = []
        for key in keys:
            before, text = counts[key]
            counts[key] = before + 1, text
            sent.append((key, before + 1))
        return sent

    counted = count_beside if work.kept else count_alone

    def schedule(numbers: tw.InputPort, output: tw.OutputPort) -> None:
        for token, keys in numbers:
            output.send(token, counted(keys))
            if work.rate is None:
                written.add(len(keys))
            else:
                written.note(int(time.monotonic() * 1e6 - token.time))

    return schedule


def own_texts(keys: int, worker: int, workers: int) -> Iterator[tuple[int, tuple[int, bytes]]]:
    """Yield the keys of one worker's shards, each with no count and a text of its own."""
    for first in range(0, keys, 100_000):
        some = list(range(first, min(keys, first + 100_000)))
        for key, owner in zip(some, owners_of(some, workers), strict=True):
            if owner == worker:
                yield key, (0, b"%064d" % key)
