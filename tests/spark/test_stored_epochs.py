"""Each epoch of a job once in a Spark table, whichever worker or writer is killed.

For other kills, or to repeat those of a run (both figures are in what a failure says)::

    TIDEWHEEL_KILLS=40 TIDEWHEEL_KILLS_SEED=1234 python -m pytest tests/spark/test_stored_epochs.py
"""

import os
import threading
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import tidewheel as tw
from tests.kit.seeds import seed_of
from tests.links.link_kind import Task
from tests.ray.stored_flow import DEADLINE_S, Feed, results, undisturbed
from tests.ray.worker_killer import WorkerKiller
from tests.spark.test_write_epochs import Writing, files
from tests.waiting import eventually
from tidewheel.host.retry import Retry
from tidewheel.runtime.engines import recovery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.usefixtures("ray_cluster")]

SEED = seed_of("TIDEWHEEL_KILLS_SEED")
KILLS = int(os.environ.get("TIDEWHEEL_KILLS") or 40)
TOPIC = "stored epochs"


def test_spark_reads_each_epoch_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: "SparkSession") -> None:
    """A job with a loop and snapshots publishes to a log for write_epochs, and both lose processes by kill -9."""
    monkeypatch.setattr(recovery, "_AGAIN", Retry(first_pause_s=0.2, factor=1.0))  # it would pause for 30 s
    random, feed, path = Random(SEED), Feed(), tmp_path / "epochs"
    killer, flow = WorkerKiller(random), tw.Dataflow("published")
    rows = results(flow.input("numbers")).map(lambda n: {"n": n})
    rows.publish(TOPIC, log=tw.Log(tmp_path / "log"))
    writers: list[Writing] = []

    def kill() -> None:
        try:
            for _ in range(KILLS):
                known = len(files(path))
                assert eventually(lambda known=known: len(files(path)) > known, DEADLINE_S)  # type: ignore[misc]
                threading.Event().wait(random.random() * 0.3)
                if random.random() < 0.3:
                    writers[-1].kill()
                    writers.append(Writing(TOPIC, tmp_path))
                else:
                    killer.strike()
        finally:
            feed.is_enough.set()

    snapshots = tw.Snapshots(tmp_path / "snapshots", every_s=0.2, restarts=10 * KILLS)
    try:
        with tw.run(flow, workers=2, snapshots=snapshots) as job:
            writers.append(Writing(TOPIC, tmp_path))
            killing = Task(kill)
            feed.run(job)
            killing.join(DEADLINE_S)
            writers[-1].wait()
        assert len(killer.killed) + len(writers) - 1 == KILLS
        stored: dict[Any, Counter[int]] = {}
        for row in spark.read.parquet(str(path)).collect():
            stored.setdefault(row["epoch"], Counter())[row["n"]] += 1
        assert stored == undisturbed(feed.epochs)
    except BaseException as error:
        error.add_note(f"TIDEWHEEL_KILLS={KILLS} TIDEWHEEL_KILLS_SEED={SEED}")
        raise
