"""The benchmark of empty rounds runs on Ray, and leaves nothing behind; how fast it is, is not tested."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytestmark = pytest.mark.ray

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def figures(ray_cluster: str) -> dict[str, dict[str, float]]:
    """The rows and the expectations of one quick run, by name; its temporary directory is empty in the end."""
    with TemporaryDirectory(prefix="tw") as directory:
        file, temporary = Path(directory, "barrier.json"), Path(directory, "t")
        temporary.mkdir()
        command = [sys.executable, str(ROOT / "benchmarks" / "barrier.py"), "--quick", "--json", str(file)]
        environment = {**os.environ, "RAY_ADDRESS": ray_cluster, "TMPDIR": str(temporary)}
        ran = subprocess.run(command, check=False, timeout=180, capture_output=True, text=True, env=environment)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert list(temporary.iterdir()) == []
        content = json.loads(file.read_text())
    assert content["machine"]["python"]
    return {
        "rows": {row["name"]: row["value"] for row in content["rows"]},
        "expectations": {row["name"]: row["value"] for row in content["expectations"]},
    }


def test_it_has_median_and_p99_of_all(figures: dict[str, dict[str, float]]) -> None:
    """Two and four workers over both links, the floor for each, and a Ray round trip."""
    names = ["a Ray actor round trip"]
    for workers in (2, 4):
        names += [f"{workers} workers, link='{link}': a round" for link in ("socket", "ray")]
        names.append(f"{workers} processes, bare ZeroMQ: a round")
    rows = figures["rows"]
    assert set(rows) == {f"{name}, {figure}" for name in names for figure in ("median", "p99")}
    assert all(0 < rows[f"{name}, median"] <= rows[f"{name}, p99"] for name in names)


def test_it_says_what_is_expected(figures: dict[str, dict[str, float]]) -> None:
    """The median round of two workers over sockets is compared with the floor, and with a Ray round trip."""
    rows = figures["rows"]
    ours = rows["2 workers, link='socket': a round, median"]
    assert figures["expectations"] == {
        "2 workers, link='socket': median round over the floor's, ratio": pytest.approx(
            ours / rows["2 processes, bare ZeroMQ: a round, median"]
        ),
        "2 workers, link='socket': median round over a Ray actor round trip, ratio": pytest.approx(
            ours / rows["a Ray actor round trip, median"]
        ),
    }
