"""The command that runs many simulations."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.__main__ import main
from tests.simulation.faults import FAULTS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def fault() -> Iterator[str]:
    """Break the core for a while; gives the name of what is wrong."""
    with FAULTS[0].inject():
        yield FAULTS[0].name


@pytest.mark.parametrize(("runs", "jobs"), [(5, 1), (105, 2)])
def test_it_says_how_many_passed(runs: int, jobs: int) -> None:
    """As CONTRIBUTING.md has it, in one process or several: the last line has the number and the first seed."""
    command = [sys.executable, "-m", "tests.simulation", "--runs", str(runs), "--seed", "7", "--jobs", str(jobs)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[-1].startswith(f"{runs} simulations from seed 7 passed in ")


@pytest.mark.usefixtures("fault")
def test_it_fails_with_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 1, and the report says how to repeat the simulation alone."""
    assert main(["--runs", "20", "--seed", "40", "--jobs", "1"]) == 1
    command = capsys.readouterr().out.splitlines()[-1].split("python -m tests.simulation ")[1]
    assert main(command.split()) == 1
