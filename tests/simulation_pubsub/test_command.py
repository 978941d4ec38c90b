"""The command that runs many simulations of topics."""

import pytest

from tests.simulation_pubsub.__main__ import main
from tests.simulation_pubsub.epoch_faults import upper_frontiers_only


def test_it_says_how_many_passed(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 0, and the last line has the number and the first seed."""
    assert main(["--runs", "30", "--seed", "7"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("30 simulations from seed 7 passed in ")


def test_it_fails_with_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 1, and the report says how to repeat the simulation alone."""
    with upper_frontiers_only():
        assert main(["--runs", "200", "--jobs", "1"]) == 1
        command = capsys.readouterr().out.splitlines()[-1].split("python -m tests.simulation_pubsub ")[1]
        assert main(command.split()) == 1
