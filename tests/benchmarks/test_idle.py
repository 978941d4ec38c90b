"""The benchmark of an idle job runs on Ray, and leaves nothing behind; an idle job costs little more than idle Ray."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ray.leftovers import nothing_left

pytestmark = pytest.mark.ray

ROOT = Path(__file__).parents[2]
WORKERS = 4


@pytest.fixture(scope="module")
def figures(ray_cluster: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """The rows and the expectations of one quick run, by name; nothing of its jobs is left in the end."""
    file = tmp_path_factory.mktemp("benchmark") / "idle.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "idle.py"), "--quick", "--json", str(file)]
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


def test_it_has_every_process(figures: dict[str, dict[str, float]]) -> None:
    """The share of each process, of the job's and of bare Ray's, and the sums."""
    kinds = {"bare Ray": ("threaded actor", "asynchronous actor"), "idle job": ("worker", "publisher")}
    expected = {f"{what}, {name}" for what in kinds for name in ("driver", "together")}
    expected |= {f"{what}, {kind} {n}" for what, of in kinds.items() for kind in of for n in range(WORKERS)}
    assert set(figures["rows"]) == {f"{name}: of one core" for name in expected}


def test_an_idle_job_sleeps(figures: dict[str, dict[str, float]]) -> None:
    """None of its processes polls: beyond what Ray takes, five seconds cost a few hundredths of a second in all."""
    beyond = figures["expectations"]["an idle job of 4 workers over 5 s, beyond bare Ray: % of one core"]
    assert beyond < 10
