"""A job and a store of its topic in SQLite, both killed: each epoch is stored once, and equal to a batch computation.

`tests/spark/test_pipeline_kills.py` has a Spark table beside it, and kills more. For other kills, or to repeat those of
a run (both figures are in what a failure says)::

    TIDEWHEEL_KILLS=3 TIDEWHEEL_KILLS_SEED=1234 python -m pytest -s tests/ray/test_pipeline_kills.py
"""

import os
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.kit.seeds import seed_of
from tests.ray.pipeline import Pipeline, say
from tests.ray.pipeline_program import epochs_in_database, in_database

pytestmark = [pytest.mark.ray]

SEED = seed_of("TIDEWHEEL_KILLS_SEED")
KILLS = int(os.environ.get("TIDEWHEEL_KILLS") or 1)


@pytest.mark.long
def test_each_epoch_is_in_the_database_once(tmp_path: Path, ray_cluster: str) -> None:
    """The driver of the job dies by kill -9, and then any process."""
    say(f"TIDEWHEEL_KILLS={KILLS} TIDEWHEEL_KILLS_SEED={SEED}")
    stored = {"database": partial(epochs_in_database, tmp_path)}
    with Pipeline(tmp_path, ray_cluster, Random(SEED), {}, "epoch") as pipeline:
        pipeline.goes_on(stored)
        pipeline.strike("program job")
        pipeline.kill_some(KILLS, stored)
        pipeline.goes_on(stored)
        pipeline.end()
        assert in_database(tmp_path) == pipeline.expected
