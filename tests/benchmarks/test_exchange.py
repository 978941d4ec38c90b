"""The benchmark of exchange runs on Ray, and leaves nothing behind; how fast it is, is not tested."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytestmark = pytest.mark.ray

ROOT = Path(__file__).parents[2]
WAYS = ("bare ZeroMQ", "link='socket'", "link='ray'")


@pytest.fixture(scope="module")
def figures(ray_cluster: str) -> dict[str, dict[str, float]]:
    """The rows and the expectations of one quick run, by name; its temporary directory is empty in the end."""
    with TemporaryDirectory(prefix="tw") as directory:
        file, temporary = Path(directory, "exchange.json"), Path(directory, "t")
        temporary.mkdir()
        command = [sys.executable, str(ROOT / "benchmarks" / "exchange.py"), "--quick", "--json", str(file)]
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


def test_it_has_records_and_bytes_of_all(figures: dict[str, dict[str, float]]) -> None:
    """Lists and Arrow tables over both links, and over bare ZeroMQ."""
    ways = [f"{kind}, {way}" for kind in ("lists of tuples", "Arrow tables") for way in WAYS]
    ways.append("Arrow tables, bare ZeroMQ, each written when it is sent")
    rows = figures["rows"]
    assert set(rows) == {f"{way}: {what}" for way in ways for what in ("records", "bytes")}
    assert all(value > 0 for value in rows.values())


def test_it_says_what_is_expected(figures: dict[str, dict[str, float]]) -> None:
    """Arrow tables over sockets are compared with the same bytes over bare ZeroMQ."""
    bare, ours = (figures["rows"][f"Arrow tables, {way}: bytes"] for way in ("bare ZeroMQ", "link='socket'"))
    name = "Arrow tables: bytes a second over bare ZeroMQ and with link='socket', ratio"
    assert figures["expectations"] == {name: pytest.approx(bare / ours)}
