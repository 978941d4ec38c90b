"""The benchmark of progress tracking runs, and what it counts (not what it times) is what is promised."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """The rows and the expectations of one quick run, by name."""
    file = tmp_path_factory.mktemp("benchmark") / "progress.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "progress.py"), "--quick", "--json", str(file)]
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    content = json.loads(file.read_text())
    assert content["machine"]["python"]
    return {
        "rows": {row["name"]: row["value"] for row in content["rows"]},
        "expectations": {row["name"]: row["value"] for row in content["expectations"]},
    }


def test_it_prints_what_the_readme_quotes(figures: dict[str, dict[str, float]]) -> None:
    """The figures by operators, by epochs in flight and by workers are all there."""
    assert figures["expectations"]["100 maps and a probe: an empty epoch, us"] > 0
    for name in ("10000 maps: an empty epoch", "10000 epochs in flight, oldest first: one more, and one less"):
        assert figures["rows"][name] > 0


def test_messages_are_linear_in_workers_when_accumulated(figures: dict[str, dict[str, float]]) -> None:
    """An epoch that all workers pass costs one message to and one from the accumulator for each other worker."""
    for workers in (2, 4, 8, 16, 32):
        counts = {
            spread: figures["rows"][f"empty epoch, {workers} workers, {spread}, held back: of progress"]
            for spread in ("broadcast", "accumulated")
        }
        assert counts == {"broadcast": workers * (workers - 1), "accumulated": 2 * (workers - 1)}


def test_hold_back_saves_messages(figures: dict[str, dict[str, float]]) -> None:
    """An epoch with data takes less than half of the messages that it takes without."""
    for spread in ("broadcast", "accumulated"):
        assert figures["expectations"][f"{spread}, 16 workers: messages with hold-back against without, ratio"] < 0.5
