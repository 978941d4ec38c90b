"""The tests that have failed in CI, run once more: chance does not fail a run, and a defect does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.repository import ROOT

FLAKY = """
from pathlib import Path

def test_{number}():
    tried = Path("tried-{number}")
    if not tried.exists():
        tried.touch()
        raise AssertionError("the first try")
"""
BROKEN = "def test_broken():\n    assert 1 == 2\n"
SEEDED = """
import sys
from pathlib import Path

def test_{number}():
    chosen_again = Path("tried").exists() and "--hypothesis-seed=7" not in sys.argv
    Path("tried").touch()
    assert chosen_again, "repeat it with --hypothesis-seed=7"
"""
UNREADABLE = "def test_(:\n"


def once_more(folder: Path, *sources: str) -> tuple[int, list[str]]:
    """Run tests, and those that failed once more; return how that ends, and the tests that it calls flaky."""
    for number, source in enumerate(sources):
        (folder / f"test_{number}.py").write_text(source.replace("{number}", str(number)))
    python = folder / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}

    def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=folder, env=environment, check=False, capture_output=True, text=True, timeout=120
        )

    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test.log").write_text(run(sys.executable, "-m", "pytest").stdout)
    ended = run(ROOT / ".ci" / "once_more", folder)
    flaky = folder / "flaky"
    return ended.returncode, flaky.read_text().splitlines() if flaky.exists() else []


def test_a_test_that_passes_alone_is_flaky(tmp_path: Path) -> None:
    """The run passes, and says which tests these are."""
    assert once_more(tmp_path, FLAKY, "def test_well(): pass\n", FLAKY) == (
        0,
        ["test_0.py::test_0", "test_2.py::test_2"],
    )


@pytest.mark.parametrize(
    "sources",
    [[FLAKY, BROKEN], [SEEDED], [UNREADABLE], [FLAKY] * 6],
    ids=["one that fails again", "one that fails with its seed", "one that cannot be read", "more than five"],
)
def test_a_defect_fails_the_run(tmp_path: Path, sources: list[str]) -> None:
    """No test is called flaky then."""
    code, flaky = once_more(tmp_path, *sources)
    assert code != 0
    assert flaky == []
