"""A process that writes a log and is killed, again and again, wherever it is."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.log.faulty_files import ScopedLog
from tests.kit.log.writing_processes import IDENTITY, KEPT_TICKS, entry
from tests.kit.seeds import seed_of
from tidewheel.pubsub.log.segmented_log import Log

MOST_ACKNOWLEDGED = 12


def kill_one(process: "subprocess.Popen[str]", after: int) -> int:
    """Start a writing process, kill it once it has acknowledged so often; return the last tick that it did."""
    requests, answers = process.stdin, process.stdout
    assert requests is not None
    assert answers is not None
    requests.write("\n")
    requests.flush()
    pid = None
    acknowledged: list[int] = []
    for line in iter(answers.readline, "gone\n"):
        if line.startswith("pid"):
            pid = int(line.split()[1])
        else:
            acknowledged.append(int(line))
        if pid is not None and len(acknowledged) >= after:
            os.kill(pid, signal.SIGKILL)
            after = 1 << 60
    return max([*acknowledged, -1])


@pytest.mark.parametrize("kills", [25, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_kills_lose_nothing_that_was_acknowledged(tmp_path: Path, kind: str, kills: int) -> None:
    """After each of them every tick up to the last that was acknowledged is there, byte for byte, and no gap behind."""
    seed = seed_of("TIDEWHEEL_KILLS_SEED")
    choices = random.Random(seed)
    program = Path(__file__).parents[2] / "kit" / "log" / "writing_processes.py"
    with subprocess.Popen(
        [sys.executable, str(program), str(tmp_path), kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        last_tick = -1
        written_over = with_area = 0
        for _ in range(kills):
            acknowledged = kill_one(process, choices.randrange(MOST_ACKNOWLEDGED))
            with ScopedLog(tmp_path, IDENTITY) as log:
                last_tick = log.last_tick
                assert check(log) == last_tick >= acknowledged, f"seed {seed}"
                assert log.removed_end <= max(0, last_tick - KEPT_TICKS), f"seed {seed}"
                written_over += log._segments[-1].spare_bytes > 0
                with_area += log._segments[-1].area_bytes > 0
    assert process.returncode == 0
    assert last_tick > kills
    assert written_over > kills / 10
    assert (with_area > kills / 20) == (kind == "memory")


def check(log: Log) -> int:
    """Look whether a log has all of what was written from its first tick on; return the last."""
    tick = log.first_tick
    while found := log.read(tick, 1 << 20):
        for record in found:
            wanted = entry(tick)
            assert (record.tick, record.kind, record.payload) == (tick, wanted.kind, b"".join(wanted.parts))
            tick += 1
    return tick - 1
