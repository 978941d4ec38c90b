"""The examples as programs: each one runs by itself, and prints what it is about."""

import os
import re
import subprocess
import sys

import pytest

from tests.examples.conftest import EXAMPLES

DEADLINE_S = 120
LONGEST = 80

SAID = {
    "deadlocks": r"\d+ -> \d+ .*rolls back \d+",
    "enrichment": r"1,\d+ calls in .* s, up to \d+ at once",
    "flight_sessions": r"26,483 flights of January 2013 in .* sessions, 0 too late",
    "graph_requests": r"500 answers; the package that needs most needs 1,209 others",
    "kmeans": r"airports around .* near ",
    "pagerank": r"1\d\.\d% libc6",
    "shortest_paths": r"epoch 6: .*the opposite corner is \d+ minutes away",
    "sorted_merge": r"6,064 departures in .* hours, in order of time: True",
    "strongly_connected": r"63,573 components, 959 of them of several packages",
    "word_count": r"[\d,]+ words, [\d,]+ different ones",
}
"""A pattern in what each says; the numbers of Debian's components are scipy's."""


def run_program(name: str, *options: str, **environment: str) -> str:
    """Return what an example prints."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *options]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE_S, check=False, env={**os.environ, **environment}
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_every_program_is_run() -> None:
    """Examples that can be started are those here, and those with a test of their own."""
    programs = {file.stem for file in EXAMPLES.glob("*.py") if 'if __name__ == "__main__":' in file.read_text()}
    collections = {name for name in programs if name.startswith("incremental_")}
    assert programs == SAID.keys() | {"billing", "dependencies", "flights", "watch_components"} | collections


@pytest.mark.parametrize("name", SAID)
def test_it_says_what_it_found(name: str) -> None:
    """By itself, on the local engine."""
    assert re.search(SAID[name], run_program(name, "--engine", "local"))


@pytest.mark.ray
def test_it_runs_on_ray(ray_cluster: str) -> None:
    """On two Ray actors, which find the modules that it imports."""
    for name in ("enrichment", "graph_requests"):
        assert re.search(SAID[name], run_program(name, RAY_ADDRESS=ray_cluster))


@pytest.mark.ray
def test_bills_are_stored_once(ray_cluster: str) -> None:
    """Though who stores them crashes, each time between storing and acknowledging."""
    assert run_program("billing", RAY_ADDRESS=ray_cluster) == "120 bills of 21420 cents in all, after 3 crashes\n"


def test_examples_are_short() -> None:
    """Each can be read at a glance: under 80 lines."""
    lengths = {file.name: len(file.read_text().splitlines()) for file in EXAMPLES.glob("*.py")}
    assert {name: length for name, length in lengths.items() if length >= LONGEST} == {}
