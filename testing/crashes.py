"""The check that a dataflow captures the same results with crashes as without."""

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from secrets import randbits
from typing import TypeAlias

from tidewheel.batches.batches import Batch, records
from tidewheel.operators.dataflow import Dataflow
from tidewheel.progress import Time
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.runtime.engines.run import run
from tidewheel.runtime.snapshots.snapshots import Snapshots

Inputs: TypeAlias = Mapping[str, Sequence[Batch]]
"""For each input, by name, the batch of each epoch, from time 0 on."""

Results: TypeAlias = dict[str, dict[Time, Counter[str]]]
"""For each capture and time, how often each record, as its `repr`, was captured."""

_MOST_ROUNDS = 6
_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Crash:
    """The moments at which a run takes a snapshot and crashes, as numbers of sent epochs and rounds of the engine.

    Attributes:
        snapshot: the number of epochs sent before the snapshot; ``snapshot_rounds`` is the number of rounds after them.
        crash: the number of epochs sent before the crash; ``crash_rounds`` is the number of rounds after them.
        workers: the number of workers; ``workers_after`` is their number after the crash.
    """

    snapshot: int
    snapshot_rounds: int
    crash: int
    crash_rounds: int
    workers: int
    workers_after: int


def check_crashes(
    describe: Callable[[], Dataflow],
    inputs: Inputs,
    *,
    workers: Sequence[int] = (1, 2, 3),
    crashes: int = 20,
    seed: int | None = None,
) -> None:
    """Check that a dataflow captures the same results for each epoch with crashes as without, on the local engine.

    Each of ``crashes`` runs takes a snapshot, crashes later, and continues from the snapshot, perhaps with another
    number of workers.

    Args:
        describe: returns a new dataflow, with captures, for each run.
        inputs: for each input, by name, the batch of each epoch.
        workers: the possible numbers of workers; give only one number if the dataflow does not support a change.
        crashes: the number of runs.
        seed: the seed for the moments; by default a new seed each time.

    Raises:
        AssertionError: a run captures other results; the message has the crash, the difference and the seed.

    >>> def describe():
    ...     flow = Dataflow("totals")
    ...     flow.input("orders").accumulate(
    ...         lambda order: order[0], start=int, add=lambda sum, order: sum + order[1]
    ...     ).capture("sums")
    ...     return flow
    >>> check_crashes(describe, {"orders": [[("ann", 5)], [("bob", 1), ("ann", 2)]]}, seed=1)
    """
    chosen = randbits(32) if seed is None else seed
    random = Random(chosen)  # noqa: S311 - the moments are no secrets
    epochs = max(map(len, inputs.values()), default=0)
    expected = run_with_crash(describe, inputs, None, workers=workers[0])
    for _ in range(crashes):
        snapshot = random.randint(0, epochs)
        crash = Crash(
            snapshot,
            random.randint(0, _MOST_ROUNDS),
            random.randint(snapshot, epochs),
            random.randint(0, _MOST_ROUNDS),
            random.choice(workers),
            random.choice(workers),
        )
        found = run_with_crash(describe, inputs, crash)
        assert found == expected, f"{_difference(expected, found)}, after {crash}; repeat it with seed={chosen}"


def run_with_crash(
    describe: Callable[[], Dataflow], inputs: Inputs, crash: Crash | None, *, workers: int = 1
) -> Results:
    """Return the results that a dataflow captures with a crash or, for None, without a crash on ``workers`` workers."""
    with tempfile.TemporaryDirectory(prefix="tidewheel-") as folder:
        snapshots = Snapshots(folder, every_s=1e9, keep=1)
        if crash is not None:
            with _started(describe, crash.workers, snapshots) as job:
                _feed(job, inputs, crash.snapshot, crash.snapshot_rounds)
                job.snapshot(_TIMEOUT_S)
                _feed(job, inputs, crash.crash, crash.crash_rounds)
                job.stop()
        after = workers if crash is None else crash.workers_after
        with _started(describe, after, snapshots) as job:
            _feed(job, inputs, max(map(len, inputs.values()), default=0), 0)
            for name in inputs:
                job.input(name).close()
            job.wait(_TIMEOUT_S)
            return {name: _by_time(job, name) for name in job.plan.captures}


def _started(describe: Callable[[], Dataflow], workers: int, snapshots: Snapshots) -> LocalJob:
    job = run(describe(), engine="local", workers=workers, snapshots=snapshots)
    assert isinstance(job, LocalJob), "that is the engine"
    return job


def _feed(job: LocalJob, inputs: Inputs, epochs: int, rounds: int) -> None:
    for name, batches in inputs.items():
        handle = job.input(name)
        for time in range(handle.position.time, min(epochs, len(batches))):
            handle.send(batches[time])
            handle.advance_to(time + 1)
    for _ in range(rounds):
        job.run_round()


def _by_time(job: LocalJob, name: str) -> dict[Time, Counter[str]]:
    found: dict[Time, Counter[str]] = {}
    for captured in job.captured(name):
        found.setdefault(captured.time, Counter()).update(map(repr, records(captured.batch)))
    return found


def _difference(expected: Results, found: Results) -> str:
    for name in expected:
        for time in {**expected[name], **found[name]}:
            wanted, got = expected[name].get(time, Counter[str]()), found[name].get(time, Counter[str]())
            if wanted != got:
                missing, surplus = wanted - got, got - wanted
                return f"capture {name!r} at time {time!r} misses {dict(missing)!r} and has {dict(surplus)!r} too much"
    return "the captures differ"
