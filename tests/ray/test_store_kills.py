"""A job whose inputs, outputs, logs and snapshots are all in S3: its processes die, and each payment counts once.

The short form is `tests/behaviour/test_store_pipeline.py`, on the local engine. For other kills, or to repeat those of
a run (both figures are in a failure)::

    TIDEWHEEL_KILLS=50 TIDEWHEEL_KILLS_SEED=1234 python -m pytest -s tests/ray/test_store_kills.py -m long
"""

import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import psutil
import pytest

import tidewheel as tw
from tests.kit.seeds import seed_of
from tests.ray.leftovers import TITLES, titled
from tests.ray.pipeline import Program, say
from tests.ray.store_program import ENOUGH, TOPIC, Totals, add_rows, epochs_in, folder_at, total, written
from tests.waiting import eventually

pytestmark = [pytest.mark.ray]

SEED = seed_of("TIDEWHEEL_KILLS_SEED")
KILLS = int(os.environ.get("TIDEWHEEL_KILLS") or 20)
DEADLINE_S = 120.0
_FILE_EVERY_S = 0.1
_ACCOUNTS = 20
_MOST_PAYMENTS = 30
_MOST_UNREAD = 3000
"""More payments than come in some steps of the job: the server of the tests lists thousands of files slowly."""
_LONGEST_PAUSE_S = 2.0
_AGAIN_S = 0.2


class Payments(threading.Thread):
    """Puts files of payments, in no order of their names, until `end`. It waits while many are not read yet.

    Attributes:
        expected: the cents of each account, and the number of payments under -1: the batch computation.
    """

    def __init__(self, url: str, random: Random, read: Callable[[], int]) -> None:
        super().__init__(name="payments")
        self._folder, self._random, self._read = folder_at(url), random, read
        self._is_enough = threading.Event()
        self.expected: Counter[int] = Counter()
        self.start()

    def run(self) -> None:
        while not self._is_enough.wait(_FILE_EVERY_S):
            if self.expected[-1] - self._read() > _MOST_UNREAD:
                continue
            count = self._random.randrange(_MOST_PAYMENTS)
            payments = [
                {"account": self._random.randrange(_ACCOUNTS), "cents": self._random.randint(1, 999)}
                for _ in range(count)
            ]
            data = "".join(f"{json.dumps(payment)}\n" for payment in payments).encode()
            self._folder.write(f"in/{self._random.randbytes(8).hex()}.jsonl", [memoryview(data)])
            add_rows(self.expected, [{**payment, "payments": 1} for payment in payments])

    def end(self) -> None:
        """Put the last file. Idempotent."""
        self._is_enough.set()
        self.join()


class Reader(threading.Thread):
    """Reads the topic as a durable subscriber, whichever run of the job publishes it, until `close`.

    Attributes:
        epochs: what came, by epoch.
        payments: how many payments these epochs have.
    """

    def __init__(self) -> None:
        super().__init__(name="reader")
        self.epochs: Totals = {}
        self.payments = 0
        self.raised: BaseException | None = None
        self._closed = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            while not self._closed.is_set():
                self._read()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.raised = error

    def _read(self) -> None:
        try:
            durable = tw.Durable("reader", ack="manual")
            with tw.subscribe(TOPIC, timeout_s=1, durable=durable, start="earliest") as topic:
                for epoch in topic.epochs():
                    self._note(epoch)
                    topic.acknowledge(epoch)
        except tw.DeliveryError as error:
            say(f"subscribes again: {error}")
            self._closed.wait(_AGAIN_S)

    def _note(self, epoch: tw.types.Epoch) -> None:
        totals: Counter[int] = Counter()
        add_rows(totals, list(epoch.records))
        name = f"epoch={epoch.time}"
        if name not in self.epochs:
            self.payments += totals[-1]
        assert self.epochs.setdefault(name, totals) == totals, f"{name} comes again with other records"

    def close(self) -> None:
        self._closed.set()
        self.join()


@pytest.mark.long
def test_each_payment_counts_once(tmp_path: Path, ray_cluster: str, bucket: str) -> None:
    """In the files and in the topic, both equal to a batch computation: workers, publishers and the driver die."""
    say(f"TIDEWHEEL_KILLS={KILLS} TIDEWHEEL_KILLS_SEED={SEED}")
    random, url = Random(SEED), f"{bucket}/job"
    program = Program(
        ["tests.ray.store_program", url], {**os.environ, "RAY_ADDRESS": ray_cluster}, tmp_path / "program.txt"
    )
    reader = Reader()
    payments = Payments(url, Random(random.random()), lambda: reader.payments)
    killed: list[str] = []
    struck: set[psutil.Process] = set()

    def goes_on() -> None:
        before = epochs_in(url)
        assert eventually(lambda: epochs_in(url) > before, DEADLINE_S), f"no epoch more than {before}"

    def strike() -> bool:
        found = {kind: titled(TITLES[kind]) for kind in ("worker", "publisher")} | {"driver": program.processes()}
        living = {kind: [one for one in some if one not in struck] for kind, some in found.items()}
        kinds = sorted((killed.count(kind), random.random(), kind) for kind, some in living.items() if some)
        if not kinds:
            return False
        kind = kinds[0][2]
        victim = random.choice(living[kind])
        struck.add(victim)
        try:
            victim.kill()
        except psutil.NoSuchProcess:
            return False
        killed.append(kind)
        say(f"killed {kind} ({victim.pid})")
        return True

    try:
        for _ in range(KILLS):
            if not killed or random.random() < 0.6:
                goes_on()
            threading.Event().wait(random.random() * _LONGEST_PAUSE_S)
            assert eventually(strike, DEADLINE_S), "there is nothing to kill"
        goes_on()
        payments.end()
        assert eventually(lambda: total(written(url))[-1] >= payments.expected[-1], DEADLINE_S), "payments are missing"
        eventually(lambda: reader.raised is not None or reader.epochs == written(url), DEADLINE_S)
        folder_at(url).put_new(ENOUGH, b"")
        assert eventually(lambda: program.has_ended_well, DEADLINE_S), "the program does not end"
        found = written(url)
        assert total(found) == payments.expected
        assert reader.raised is None
        assert reader.epochs == found
        assert len(killed) == KILLS
    except BaseException as error:
        error.add_note(f"TIDEWHEEL_KILLS={KILLS} TIDEWHEEL_KILLS_SEED={SEED}: killed {killed}")
        error.add_note(program.last_output())
        raise
    finally:
        payments.end()
        program.close()
        reader.close()
