"""A relay on another node than the publisher: what crosses nodes goes by Ray's calls."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.ray, pytest.mark.long]

ROOT = Path(__file__).parents[3]
DEADLINE_S = 240.0


def epochs(first: int, end: int) -> list[Any]:
    return [[epoch, [epoch * 10, epoch * 10 + 1]] for epoch in range(first, end)]


def test_nobody_misses_anything_when_the_relay_or_its_node_dies(tmp_path: Path) -> None:
    """Subscribers on three nodes use a relay on the second; it comes back there, and elsewhere when that is gone."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "TIDEWHEEL_"))}
    with tempfile.TemporaryDirectory(prefix="tw-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        alone = {"RAY_TMPDIR": folder, "TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
        alone["RAY_health_check_period_ms"] = "500"  # so that Ray notices within seconds that a node is dead
        done = subprocess.run(
            [sys.executable, "-m", "tests.ray.topics.relayed_nodes", str(tmp_path)],
            cwd=ROOT,
            env={**inherited, **alone},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    [found] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"had"')]
    assert found["had"] == [
        *([epochs(0, 10)] * 3),
        *([epochs(10, 20)] * 3),
        *([epochs(20, 30)] * 2),
        *([epochs(30, 40)] * 3),
    ]
    assert found["placed"] == [True, True]
    assert found["children"] == [3, 1]
