"""From Kafka through a loop with state into Postgres and Delta Lake: processes die, both hold each epoch once.

The dataflow is that of `examples/connectors/linked_accounts.py`. For other kills, or to repeat those of a run::

    TIDEWHEEL_KILLS=50 TIDEWHEEL_KILLS_SEED=1234 python -m pytest -s tests/ray/test_kafka_pipeline_kills.py -m long
"""

import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable

import tidewheel as tw
from examples.connectors.linked_accounts import TABLE, link
from tests.kit.connectors.postgres_fixtures import database, postgres
from tests.kit.connectors.postgres_server import PostgresServer, execute
from tests.kit.kafka.mock_cluster import MockCluster
from tests.kit.seeds import seed_of
from tests.ray.pipeline import say
from tests.ray.worker_killer import WorkerKiller
from tests.waiting import eventually

__all__ = ["database", "postgres"]

pytestmark = [pytest.mark.ray]

SEED = seed_of("TIDEWHEEL_KILLS_SEED")
KILLS = int(os.environ.get("TIDEWHEEL_KILLS") or 30)
DEADLINE_S = 120.0
_ACCOUNTS = 3_000
_EVERY_S = 0.2
_MOST = 20


class Bank(threading.Thread):
    """Sends transfers to a topic, until `end`.

    Attributes:
        transfers: all that it has sent.
    """

    def __init__(self, cluster: MockCluster, random: Random) -> None:
        super().__init__(name="bank")
        self._cluster, self._random = cluster, random
        self._is_enough = threading.Event()
        self.transfers: list[tuple[int, int]] = []
        self.raised: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while not self._is_enough.wait(_EVERY_S):
                some = [
                    (self._random.randrange(_ACCOUNTS), self._random.randrange(_ACCOUNTS))
                    for _ in range(self._random.randrange(_MOST))
                ]
                values = [(b'{"from":%d,"to":%d}' % one, None) for one in some]
                self._cluster.send("transfers", values, partition=self._random.randrange(4))
                self.transfers += some
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.raised = error

    def end(self) -> None:
        """Send no more. Idempotent."""
        self._is_enough.set()
        self.join()


def linked(transfers: list[tuple[int, int]]) -> dict[int, int]:
    """Return the least account of the group of each account: the batch computation."""
    above: dict[int, int] = {}

    def least(account: int) -> int:
        while above.setdefault(account, account) != account:
            account = above[account]
        return account

    for one, other in transfers:
        first, second = sorted((least(one), least(other)))
        above[second] = first
    return {account: least(account) for account in above}


def in_delta(url: str) -> dict[int, int]:
    """Return what all changes in the table of Delta Lake amount to."""
    counts: Counter[tuple[int, int]] = Counter()
    for row in DeltaTable(url).to_pyarrow_table().to_pylist():
        counts[row["account"], row["least"]] += row["diff"]
    assert set(counts.values()) <= {0, 1}, "an epoch is there twice, or not at all"
    return dict(pair for pair, count in counts.items() if count)


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    running = MockCluster()
    yield running
    running.close()


@pytest.mark.parametrize("kills", [2, pytest.param(KILLS, marks=pytest.mark.long)], ids=["short", "long"])
@pytest.mark.usefixtures("ray_cluster")
def test_both_tables_equal_a_batch(
    kills: int, cluster: MockCluster, database: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    """Workers die, Postgres is restarted twice, and the job goes on with three workers in place of two."""
    say(f"TIDEWHEEL_KILLS={kills} TIDEWHEEL_KILLS_SEED={SEED}")
    random, delta = Random(SEED), str(tmp_path / "linked")
    execute(database, TABLE)
    snapshots = tw.Snapshots(tmp_path / "snapshots", every_s=0.5 if kills < KILLS else 10, restarts=kills)
    bank, killer = Bank(cluster, Random(random.random())), WorkerKiller(random)

    def begin(workers: int) -> tw.types.Job:
        flow = tw.Dataflow("linked accounts")
        link(flow, cluster.servers, database, delta)
        return tw.run(flow, workers=workers, snapshots=snapshots)

    def stored() -> dict[int, int]:
        return dict(execute(database, "TABLE linked"))

    def goes_on() -> None:
        before = len(stored())
        assert eventually(lambda: len(stored()) > before or before == _ACCOUNTS, DEADLINE_S), "nothing is stored"

    def has_all() -> bool:
        expected = linked(bank.transfers)
        return stored() == expected and in_delta(delta) == expected

    try:
        for workers, some in ((2, kills // 2), (3, kills - kills // 2)):
            with begin(workers) as job:
                for number in range(some):
                    threading.Event().wait(random.random() * 4)
                    killer.strike()
                    if number == some // 2:
                        postgres.stop()
                        postgres.start()
                        say("restarted Postgres")
                goes_on()
                if workers == 3:
                    bank.end()
                    assert bank.raised is None
                    assert eventually(has_all, DEADLINE_S), "transfers are missing"
                job.stop(snapshot=True)
        say(f"equal after {len(bank.transfers)} transfers and {len(killer.killed)} kills")
        assert has_all()
    except BaseException as error:
        error.add_note(f"TIDEWHEEL_KILLS={kills} TIDEWHEEL_KILLS_SEED={SEED}")
        raise
    finally:
        bank.end()
