"""A job on Ray stores each epoch once in SQLite while its workers are killed.

For other kills, or to repeat those of a run (both figures are in what a failure says)::

    TIDEWHEEL_KILLS=40 TIDEWHEEL_KILLS_SEED=1234 python -m pytest tests/ray/test_sinks.py
"""

import os
import threading
from pathlib import Path
from random import Random
from typing import Literal

import pytest

import tidewheel as tw
from tests.kit.operators.sinks import Table
from tests.kit.seeds import seed_of
from tests.links.link_kind import Task
from tests.ray.leftovers import nothing_left
from tests.ray.stored_flow import DEADLINE_S, Feed, counted, describe, undisturbed
from tests.ray.worker_killer import WorkerKiller
from tests.waiting import eventually
from tidewheel.host.retry import Retry
from tidewheel.runtime.engines import recovery

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

SEED = seed_of("TIDEWHEEL_KILLS_SEED")
KILLS = int(os.environ.get("TIDEWHEEL_KILLS") or 40)


@pytest.mark.parametrize(
    ("kills", "visible"),
    [
        (3, "snapshot"),
        pytest.param(3, "epoch", marks=pytest.mark.long),
        pytest.param(KILLS, "snapshot", marks=pytest.mark.long),
    ],
)
def test_each_epoch_is_stored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int, visible: Literal["snapshot", "epoch"]
) -> None:
    """Whichever worker is killed, and whenever: the tables are those of a run without a crash."""
    monkeypatch.setattr(recovery, "_AGAIN", Retry(first_pause_s=0.2, factor=1.0))  # it would pause for 30 s
    random, feed, path = Random(SEED), Feed(), tmp_path / "db"
    killer = WorkerKiller(random)

    def kill() -> None:
        try:
            for _ in range(kills):
                known = Table(path).last_committed()
                assert eventually(lambda known=known: Table(path).last_committed() != known, DEADLINE_S)  # type: ignore[misc]
                threading.Event().wait(random.random() * 0.3)
                killer.strike()
        finally:
            feed.is_enough.set()

    snapshots = tw.Snapshots(tmp_path / "snapshots", every_s=0.2, restarts=10 * kills)
    try:
        with nothing_left(), tw.run(describe(path, visible), workers=2, snapshots=snapshots) as job:
            killing = Task(kill)
            feed.run(job)
            killing.join(DEADLINE_S)
        assert len(killer.killed) == kills
        assert counted(path) == undisturbed(feed.epochs)
    except BaseException as error:
        error.add_note(f"TIDEWHEEL_KILLS={kills} TIDEWHEEL_KILLS_SEED={SEED}")
        raise


def test_a_job_without_snapshots_leaves_out_what_is_there(tmp_path: Path) -> None:
    """A program that is started again from its beginning stores the rest; the last epoch is stored before the end."""
    for epochs in (3, 5):
        feed = Feed()
        feed.epochs = epochs
        feed.is_enough.set()
        with nothing_left(), tw.run(describe(tmp_path / "db"), workers=2) as job:
            feed.run(job)
        assert len(counted(tmp_path / "db")) == epochs
    assert counted(tmp_path / "db") == undisturbed(5)
