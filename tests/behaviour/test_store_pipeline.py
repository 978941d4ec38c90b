"""A job whose inputs, outputs and snapshots are all in S3 is cut off again and again: each payment counts once.

`tests/ray/test_store_kills.py` kills the processes of such a job. To repeat a run by the seed that a failure says::

    TIDEWHEEL_KILLS_SEED=1234 python -m pytest tests/behaviour/test_store_pipeline.py
"""

import json
from collections import Counter
from random import Random

import pytest

import tidewheel as tw
from tests.kit.seeds import seed_of
from tests.ray.store_program import add_rows, folder_at, total, totals_of, written
from tests.waiting import eventually
from tidewheel.runtime.engines.local_job import LocalJob

SEED = seed_of("TIDEWHEEL_KILLS_SEED")
LOOKS_EVERY_S = 0.01
MOST_PAYMENTS = 9
MOST_ROUNDS = 60


class Payments:
    """Puts files of payments, in no order of their names."""

    def __init__(self, url: str, random: Random) -> None:
        self._folder, self._random = folder_at(url), random
        self.expected: Counter[int] = Counter()

    def put(self) -> None:
        """Put a file."""
        payments = [
            {"account": self._random.randrange(5), "cents": self._random.randint(1, 999)}
            for _ in range(self._random.randrange(MOST_PAYMENTS))
        ]
        data = "".join(f"{json.dumps(payment)}\n" for payment in payments).encode()
        self._folder.write(f"in/{self._random.randbytes(8).hex()}.jsonl", [memoryview(data)])
        add_rows(self.expected, [{**payment, "payments": 1} for payment in payments])


def begin(url: str, workers: int) -> LocalJob:
    flow = tw.Dataflow("store")
    totals_of(flow, url, LOOKS_EVERY_S)
    job = tw.run(flow, workers=workers, engine="local", snapshots=tw.Snapshots(f"{url}/snapshots", every_s=0.05))
    assert isinstance(job, LocalJob)
    return job


@pytest.mark.parametrize("cuts", [2, pytest.param(20, marks=pytest.mark.long)])
def test_each_payment_counts_once(cuts: int, bucket: str) -> None:
    """Whatever came after the last snapshot is lost each time, and the number of workers changes."""
    url = f"{bucket}/job"
    random = Random(SEED)
    payments = Payments(url, random)
    try:
        for _ in range(cuts):
            with begin(url, random.randint(1, 3)) as job:
                for _ in range(random.randrange(MOST_ROUNDS)):
                    if random.random() < 0.1:
                        payments.put()
                    job.run_round()
                job.stop()
            assert total(written(url))[-1] <= payments.expected[-1]
        with begin(url, 2) as job:

            def has_all() -> bool:
                for _ in range(MOST_ROUNDS):
                    job.run_round()
                return total(written(url))[-1] >= payments.expected[-1]

            assert eventually(has_all)
            job.stop(snapshot=True)
        assert total(written(url)) == payments.expected
    except BaseException as error:
        error.add_note(f"TIDEWHEEL_KILLS_SEED={SEED}")
        raise
