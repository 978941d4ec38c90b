"""A program is killed between the delivery of a micro-batch and Spark's commit: each row is published once.

To repeat a run (the seed is in what a failure says), and to kill more often than once::

    TIDEWHEEL_KILLS=3 TIDEWHEEL_KILLS_SEED=1234 python -m pytest tests/spark/test_feed_kills.py

`test_feed.py` has the short form, a job that ends between the two.
"""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.seeds import seed_of
from tests.ray.topics.durable_program import lines
from tests.spark.feed_kill_program import TOPIC
from tests.spark.micro_batches import add_file

pytestmark = [pytest.mark.spark, pytest.mark.long]

SEED = seed_of("TIDEWHEEL_KILLS_SEED")
KILLS = int(os.environ.get("TIDEWHEEL_KILLS") or 1)
FILES = 2 + KILLS
DEADLINE_S = 120.0


def test_each_row_is_published_once(tmp_path: Path, ray_cluster: str, pytestconfig: pytest.Config) -> None:
    """Whether a subscriber has read the epoch, or only the log has it, or it has just been sent; Spark replays it."""
    choices = random.Random(SEED)
    killed = sorted(choices.sample(range(FILES), KILLS))
    moments = [(choices.choice(["sent", "durable", "read"]), epoch) for epoch in killed] + [("never", 0)]
    say = f"repeat with TIDEWHEEL_KILLS_SEED={SEED}: killed at {moments}"
    expected = {}
    for number in range(FILES):
        expected[number] = [number * 1000 + n for n in range(choices.randint(1, 400))]
        add_file(tmp_path / "in", number, expected[number])
    environment = os.environ | {"RAY_ADDRESS": ray_cluster, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    (tmp_path / "read").touch()

    def started(module: str, *arguments: str, group: bool = False) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", module, *arguments]
        return subprocess.Popen(
            command, env=environment, cwd=pytestconfig.rootpath, start_new_session=group, stderr=subprocess.PIPE
        )

    for moment, epoch in moments:
        program = started("tests.spark.feed_kill_program", str(tmp_path), moment, str(epoch), group=True)
        reader = started("tests.ray.topics.durable_program", TOPIC, "audit", "total", str(tmp_path / "read"))
        try:
            errors = program.communicate(timeout=DEADLINE_S)[1].decode()
            assert program.returncode == (0 if moment == "never" else -signal.SIGKILL), f"{say}: {errors[-3000:]}"
            reader.communicate(timeout=DEADLINE_S)
        finally:
            program.kill()
            reader.kill()
            reader.communicate()

    found = lines(tmp_path / "read")
    assert found[-1] == "end", f"{say}: {found[-1]}"
    published = {(line[0], line[1]): line for line in found if isinstance(line, list)}
    got: dict[int, list[int]] = {}
    for _, _, epoch, numbers in published.values():
        got.setdefault(epoch, []).extend(numbers)
    assert {epoch: sorted(numbers) for epoch, numbers in got.items()} == expected, say
    delivered = lines(tmp_path / "delivered")
    replayed = [epoch for epoch in range(FILES) if delivered.count(epoch) > 1]
    assert replayed == killed, f"{say}: Spark has replayed {replayed}"
