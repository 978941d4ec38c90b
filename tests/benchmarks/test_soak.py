"""The benchmark that looks for growing memory runs on Ray for half a minute, and finds none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ray.leftovers import nothing_left

pytestmark = pytest.mark.ray

ROOT = Path(__file__).parents[2]
PROCESSES = ["driver", "worker 0", "worker 1", "publisher 0", "publisher 1"]


@pytest.fixture(scope="module")
def figures(ray_cluster: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """The rows and the expectations of one quick run, by name; nothing of its jobs is left in the end."""
    file = tmp_path_factory.mktemp("benchmark") / "soak.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "soak.py"), "--quick", "--json", str(file)]
    with nothing_left():
        ran = subprocess.run(
            command,
            check=False,
            timeout=120,
            capture_output=True,
            text=True,
            env={**os.environ, "RAY_ADDRESS": ray_cluster},
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    content = json.loads(file.read_text())
    assert content["machine"]["python"]
    return {kind: {row["name"]: row["value"] for row in content[kind]} for kind in ("rows", "expectations")}


def test_it_runs_at_full_rate(figures: dict[str, dict[str, float]]) -> None:
    """Thousands of epochs have passed, each of which the subscriber has seen."""
    assert figures["rows"]["epochs at full rate"] > 30


@pytest.mark.parametrize("process", PROCESSES)
def test_memory_is_flat(figures: dict[str, dict[str, float]], process: str) -> None:
    """After the warm-up, no process grows by more than a twentieth of what it has."""
    before = figures["rows"][f"{process}: memory, first half"]
    growth = figures["expectations"][f"{process}: growth of memory, MiB"]
    assert before > 10
    assert growth < min(20.0, before / 20)
