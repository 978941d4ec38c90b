"""Dead letters on Ray: while workers are killed, each record is stored once, or its letter is."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.operators.sinks import Table, read_table
from tests.kit.seeds import seed_of
from tests.links.link_kind import Task
from tests.ray.leftovers import nothing_left
from tests.ray.test_sources import Messages
from tests.ray.worker_killer import WorkerKiller
from tests.waiting import eventually
from tidewheel.host.retry import Retry
from tidewheel.runtime.engines import recovery

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 120.0
SEED = seed_of("TIDEWHEEL_KILLS_SEED")


class Poisoned(Messages):
    """Refuses each third message."""

    def open(self, partition: str | int, position: Any) -> Iterator[Any]:
        for read in super().open(partition, position):
            if isinstance(read, tw.Pause):
                yield read
                continue
            bodies, last = read
            refused = [tw.Refused(body, ValueError("poisoned"), f"body {body}") for body in bodies if body % 3 == 0]
            yield tw.Fetched([body for body in bodies if body % 3], last, refused=refused)


def check(body: int) -> int:
    if body % 5 == 0:
        raise ValueError(body)
    return body


async def ask(bodies: list[int]) -> list[int]:
    if any(body % 7 == 0 for body in bodies):
        raise ConnectionError("no answer")
    return bodies


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.long)])
def test_each_record_or_its_letter_is_stored_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int) -> None:
    """Letters of a source, of an operator with state and of calls, in one stream, whichever worker is killed."""
    monkeypatch.setattr(recovery, "_AGAIN", Retry(first_pause_s=0.2, factor=1.0))  # it would pause for 30 s
    messages, good, bad = Poisoned(tmp_path / "messages"), tmp_path / "good", tmp_path / "bad"
    killer = WorkerKiller(Random(SEED))
    sent = [0, 0, 0]

    def feed() -> None:
        for _ in range(kills + 1):
            for queue in range(3):
                for _ in range(10):
                    messages.send(queue, sent[queue], 1000 * queue + sent[queue])
                    sent[queue] += 1
            known = Table(good).last_committed()
            assert eventually(lambda known=known: Table(good).last_committed() != known, DEADLINE_S)  # type: ignore[misc]
            if len(killer.killed) < kills:
                killer.strike()
        for queue in range(3):
            messages.send(queue, sent[queue], None)

    flow = tw.Dataflow("messages")
    letters = flow.dead_letters()
    bodies = flow.source("messages", messages, epoch_every_s=0.1, dead_letters=letters).rebalance()
    asked = bodies.map_async(ask, batch_size=1, per_second=5000, dead_letters=letters)
    checked = asked.stateful_map(
        lambda body: body % 4, start=int, step=lambda many, body: (many + 1, check(body)), dead_letters=letters
    )
    checked.sink(Table(good), name="good")
    letters.map(lambda letter: letter.record).sink(Table(bad), name="bad")
    snapshots = tw.Snapshots(tmp_path / "snapshots", every_s=0.2, restarts=10 * kills)
    try:
        with nothing_left(), tw.run(flow, workers=2, snapshots=snapshots) as job:
            feeding = Task(feed)
            job.wait(DEADLINE_S)
            feeding.join(DEADLINE_S)
        assert len(killer.killed) == kills
        everything = [1000 * queue + number for queue in range(3) for number in range(sent[queue])]
        stored = {path: sorted(body for found in read_table(path).values() for body in found) for path in (good, bad)}
        fine = [body for body in everything if body % 3 and body % 5 and body % 7]
        assert stored == {good: sorted(fine), bad: sorted(set(everything) - set(fine))}
        with messages.connect() as database:
            assert database.execute("SELECT count(*) FROM messages").fetchone() == (0,)
    except BaseException as error:
        error.add_note(f"TIDEWHEEL_KILLS_SEED={SEED}")
        raise
