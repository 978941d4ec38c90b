"""The examples as programs: each one runs by itself as its index says, and prints what the index says."""

import os
import subprocess
import sys

import pytest

from tests.examples.index import EXAMPLES, programs
from tests.kit.connectors.postgres_fixtures import database, postgres
from tests.packaging.repository import ROOT

__all__ = ["database", "postgres"]

DEADLINE_S = 120
LONGEST = 80
SUBJECTS = {"first_steps", "loops", "windows"}
"""Those whose programs run here on the local engine; test_incremental.py runs collections."""

ON_RAY = {"billing", "dependencies", "flights", "incremental_join", "linked_accounts", "watch_components"}
"""Programs that have no local engine. test_dependencies.py runs the second and the last of them."""


def run_program(name: str, *options: str, **environment: str) -> str:
    """Return what an example prints that its index says how to run; fail unless the line from the index is in it."""
    program = programs()[name]
    python, *arguments = program.command.split()
    assert python == "python"
    command = [sys.executable, "-W", "error", *arguments, *options]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        env={**os.environ, **environment},
        cwd=ROOT,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert program.has_printed(ran.stdout), f"this has no line {program.prints}:\n{ran.stdout}"
    return ran.stdout


def test_every_program_is_run() -> None:
    """Programs without a local engine have tests of their own, and so have collections."""
    others = {program.name for program in programs().values() if program.subject not in SUBJECTS | {"collections"}}
    assert others == ON_RAY


@pytest.mark.parametrize("name", [program.name for program in programs().values() if program.subject in SUBJECTS])
def test_it_prints_what_the_index_says(name: str) -> None:
    """By itself, on the local engine."""
    run_program(name, "--engine", "local")


@pytest.mark.ray
def test_it_runs_on_ray(ray_cluster: str) -> None:
    """On two Ray actors, which find the modules that it imports."""
    for name in ("word_count", "enrichment", "graph_requests"):
        run_program(name, RAY_ADDRESS=ray_cluster)


@pytest.mark.ray
def test_bills_are_stored_once(ray_cluster: str) -> None:
    """Though who stores them crashes, each time between storing and acknowledging."""
    assert run_program("billing", RAY_ADDRESS=ray_cluster) == "120 bills of 21420 cents in all, after 3 crashes\n"


@pytest.mark.ray
def test_accounts_are_linked(ray_cluster: str, database: str) -> None:
    """From a broker of the program through a loop into a Postgres server, and into Delta Lake."""
    run_program("linked_accounts", "--postgres", database, RAY_ADDRESS=ray_cluster)


def test_examples_are_short() -> None:
    """Each can be read at a glance: under 80 lines."""
    files = [file for file in EXAMPLES.rglob("*.py") if file.parent.name != "data"]
    lengths = {file.name: len(file.read_text().splitlines()) for file in files}
    assert {name: length for name, length in lengths.items() if length >= LONGEST} == {}
