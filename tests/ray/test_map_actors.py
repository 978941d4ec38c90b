"""map_actors on Ray: one pool for all workers, each record once whatever dies, clear errors, and nothing left."""

import os
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.ray.leftovers import hosts, nothing_left
from tests.ray.worker_killer import WorkerKiller
from tests.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 120.0
REPLICAS = 4
BATCH = 100
EPOCH = 250


class Squares:
    """Squares numbers of lists; each batch takes a while."""

    def __init__(self, takes_s: float) -> None:
        self._takes_s = takes_s

    def __call__(self, numbers: list[int]) -> list[tuple[int, int]]:
        threading.Event().wait(self._takes_s)
        return [(number, number**2) for number in numbers]


class Kills(threading.Thread):
    """Kills a process of each of these kinds, one after the other, so many seconds apart."""

    def __init__(self, kinds: list[str], every_s: float, seed: int) -> None:
        super().__init__(daemon=True)
        self._kinds, self._every_s = kinds, every_s
        self._killer = WorkerKiller(Random(seed))
        self._is_over = threading.Event()

    def run(self) -> None:
        for kind in self._kinds:
            if self._is_over.wait(self._every_s):
                return
            self._killer.strike(kind)

    def end(self) -> int:
        """Return how many were killed."""
        self._is_over.set()
        self.join(DEADLINE_S)
        return len(self._killer.killed)


@pytest.mark.parametrize(
    ("records", "kinds", "every_s"),
    [
        (8_000, ["model", "worker", "model"], 0.6),
        pytest.param(100_000, ["model"] * 7, 3.0, marks=pytest.mark.long),
    ],
)
def test_each_record_once_whatever_dies(tmp_path: Path, records: int, kinds: list[str], every_s: float) -> None:
    """Actors are replaced and their calls repeated; a worker that is replaced finds the pool again."""
    halves = [range(first, records, 2) for first in range(2)]
    epochs = range(records // 2 // EPOCH)
    partitions = [[(n, list(half[n * EPOCH : (n + 1) * EPOCH])) for n in epochs] for half in halves]
    flow = tw.Dataflow("squares")
    numbers = flow.source("numbers", tw.IterableSource(partitions))
    numbers.map_actors(partial(Squares, 0.1), replicas=REPLICAS, batch_size=BATCH).capture("squares")
    with nothing_left(), tw.run(flow, workers=2, snapshots=tw.Snapshots(tmp_path, every_s=0.3)) as job:
        kills = Kills(kinds, every_s, seed=records)
        kills.start()
        job.wait(DEADLINE_S)
        assert kills.end() == len(kinds)
        assert eventually(lambda: len(hosts("model")) == REPLICAS, DEADLINE_S), "the dead were replaced"
        found = Counter((entry.time, *one) for entry in job.captured("squares") for one in entry.batch)
    assert found == Counter((number // 2 // EPOCH, number, number**2) for number in range(records))


class Sharing:
    """Says of each row in which process it was, and whether its table was read from shared memory."""

    def __call__(self, table: pa.Table) -> pa.Table:
        rows = table.num_rows
        return pa.table({"pid": np.full(rows, os.getpid()), "shared": np.full(rows, is_shared(table["n"]))})


def is_shared(column: pa.ChunkedArray) -> bool:
    """Tell whether the numbers of a column are in memory that this process shares with Ray's store."""
    places = [chunk.buffers()[1].address for chunk in column.chunks]
    maps = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines()]
    shared = [[int(end, 16) for end in one[0].split("-")] for one in maps if one[1].endswith("s")]
    return all(any(start <= place < end for start, end in shared) for place in places)


def look(table: pa.Table) -> list[tuple[set[int], bool, bool]]:
    return [(set(table["pid"].to_pylist()), all(table["shared"].to_pylist()), is_shared(table["pid"]))]


def test_workers_share_actors_and_memory() -> None:
    """Large tables are written once, and read without a copy on both ways."""
    rows = 200_000
    tables = [[(epoch, pa.table({"n": np.arange(rows)})) for epoch in range(2)] for _ in range(2)]
    flow = tw.Dataflow("sharing")
    numbers = flow.source("numbers", tw.IterableSource(tables))
    numbers.map_actors(Sharing, replicas=2, batch_size=rows // 4).map_batches(look).capture("looks")
    with nothing_left(), tw.run(flow, workers=2) as job:
        job.wait(DEADLINE_S)
        looks = [one for entry in job.captured("looks") for one in entry.batch]
        pids = set().union(*(pids for pids, _, _ in looks))
        assert pids <= {process.pid for process in hosts("model")}
        assert len(hosts("model")) == 2
    assert len(looks) == 16
    assert all(came and went for _, came, went in looks)


def refuse() -> Any:
    raise OSError("no weights")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": refuse}, "the model of refuse cannot be made: OSError: no weights"),
        ({"model": partial(Squares, 0), "resources": {"GPU": 2}}, "Each reserves GPU=2.* has too little GPU"),
    ],
    ids=["constructor", "GPU"],
)
def test_a_pool_that_cannot_start_is_an_error(options: dict[str, Any], said: str) -> None:
    """At once, or as soon as a job may wait for resources no longer."""
    flow = tw.Dataflow("unmade")
    flow.input("numbers").map_actors(**options, replicas=2).capture("results")
    with nothing_left(), pytest.raises(tw.JobError, match=f"(?s){said}") as caught:
        tw.run(flow, config=tw.RuntimeConfig(deploy_timeout_s=1.5 if "resources" in options else DEADLINE_S))
    assert caught.value.operator == "map_actors"


def end_process() -> Any:
    os._exit(3)


class Dying(Squares):
    """Ends the process of its second and of every later object: the first one is the actor that lives."""

    def __init__(self, folder: Path) -> None:
        super().__init__(0)
        try:
            (folder / "first").touch(exist_ok=False)
        except FileExistsError:
            end_process()


@pytest.mark.long
def test_a_model_whose_actors_die_again_and_again_fails_the_job(tmp_path: Path) -> None:
    """The job does not start actors for ever."""
    flow = tw.Dataflow("dying")
    flow.input("numbers").map_actors(partial(Dying, tmp_path), replicas=1).probe("done")
    with nothing_left(), pytest.raises(tw.JobError, match="died before their model was made"), tw.run(flow) as job:
        kill_the_actor(job)


def kill_the_actor(job: tw.types.Job) -> None:
    """Kill the actor of a pool after its first call, and wait for a second one."""
    numbers = job.input("numbers")
    numbers.send([1])
    numbers.advance_to(1)
    job.probe("done").wait_until(1, DEADLINE_S)
    [actor] = hosts("model")
    actor.kill()
    numbers.send([2])
    numbers.close()
    job.wait(DEADLINE_S)


def test_a_model_that_raises_on_ray_fails_the_job_with_its_traceback() -> None:
    """As an operator of the worker does; the actor's own lines are in it."""
    flow = tw.Dataflow("raises")
    words = flow.source("words", tw.IterableSource([[(0, ["no number"])]]))
    words.map_actors(partial(Squares, 0), replicas=1).capture("results")
    with nothing_left(), pytest.raises(tw.JobError) as caught, tw.run(flow) as job:
        job.wait(DEADLINE_S)
    assert (caught.value.operator, caught.value.time) == ("map_actors", 0)
    assert "TypeError" in str(caught.value)
    assert "in __call__" in caught.value.traceback_text
