"""The command that runs many simulations of snapshots."""

import pytest

from tests.simulation_recovery.__main__ import main
from tests.simulation_recovery.faults import FAULTS


def test_it_says_how_many_passed(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 0, and the last line has the number and the first seed."""
    assert main(["--runs", "5", "--seed", "7"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("5 simulations from seed 7 passed in ")


def test_it_fails_with_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 1, and the report says how to repeat the simulation alone."""
    with FAULTS[0].inject():
        assert main(["--runs", "50"]) == 1
        command = capsys.readouterr().out.splitlines()[-1].split("python -m tests.simulation_recovery ")[1]
        assert main(command.split()) == 1
