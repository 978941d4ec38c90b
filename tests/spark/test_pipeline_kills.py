"""From a source through a loop with state to an exactly-once topic, to SQLite and to a Spark table, all of it killed.

Forty processes die by default, five in each run. For other numbers, or to repeat a run (the figures are in what a
failure says)::

    TIDEWHEEL_KILLS=10 TIDEWHEEL_KILLS_SEED=1234 python -m pytest -s tests/spark/test_pipeline_kills.py
"""

import os
from functools import partial
from pathlib import Path
from random import Random
from typing import Literal

import pytest

from tests.kit.seeds import seed_of
from tests.ray.pipeline import Pipeline, say
from tests.ray.pipeline_program import epochs_in_database, in_database
from tests.spark.pipeline_table_program import in_table, stored_batches

pytestmark = [pytest.mark.spark, pytest.mark.long]

SEED = seed_of("TIDEWHEEL_KILLS_SEED")
KILLS = int(os.environ.get("TIDEWHEEL_KILLS") or 40)
KILLS_IN_A_RUN = 5


@pytest.mark.parametrize("run", range(-(-KILLS // KILLS_IN_A_RUN)))
def test_each_epoch_is_in_both_once(run: int, tmp_path: Path, ray_cluster: str) -> None:
    """Any process is killed at random moments: drivers, workers, publishers, the catalog, the stores, the JVM."""
    say(f"TIDEWHEEL_KILLS={KILLS} TIDEWHEEL_KILLS_SEED={SEED}, run {run}")
    random = Random(f"{SEED} {run}")
    visible: Literal["epoch", "snapshot"] = random.choice(("epoch", "snapshot"))
    stored = {"database": partial(epochs_in_database, tmp_path), "table": partial(stored_batches, tmp_path)}
    stores = {"table": ["tests.spark.pipeline_table_program"]}
    with Pipeline(tmp_path, ray_cluster, random, stores, visible) as pipeline:
        kills, at_end = min(KILLS_IN_A_RUN, KILLS - run * KILLS_IN_A_RUN), random.randrange(2)
        pipeline.kill_some(kills - at_end, stored)
        pipeline.goes_on(stored)
        pipeline.end(at_end)
        expected = pipeline.expected
        assert in_database(tmp_path) == expected
        assert in_table(tmp_path) == expected
