"""The command that runs many simulations of a world."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.__main__ import main
from tests.simulation.faults.table import FAULTS
from tests.simulation.scenario import WORLDS

ROOT = Path(__file__).parents[2]


def test_several_processes_share_the_simulations() -> None:
    """As CONTRIBUTING.md has it: the last line has the number and the first seed."""
    command = [sys.executable, "-m", "tests.simulation", "topics", "--runs", "105", "--seed", "7", "--jobs", "2"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[-1].startswith("105 simulations of topics from seed 7 passed in ")


@pytest.mark.parametrize("world", WORLDS)
def test_it_says_how_many_passed(world: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 0, for each world."""
    assert main([world, "--runs", "2", "--seed", "7", "--jobs", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"2 simulations of {world} from seed 7 passed in ")


@pytest.mark.parametrize("world", WORLDS)
def test_it_fails_with_a_report(world: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 1, and the report says how to repeat the simulation alone."""
    fault = next(fault for fault in FAULTS if fault.has == WORLDS[world])
    with fault.inject():
        assert main([world, "--runs", "9", "--seed", str(fault.seed), "--jobs", "1"]) == 1
        command = capsys.readouterr().out.splitlines()[-1].split("python -m tests.simulation ")[1]
        assert main(command.split()) == 1
