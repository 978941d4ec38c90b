"""Records of classes of the main program are of one class on all ways through a job on Ray, as in one process."""

import json
import os
import secrets
import shutil
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from subprocess import run
from typing import Any

import pytest

from tests.ray.driver_process import DriverProcess

ROOT = Path(__file__).parents[2]
WITHIN_S = 600.0

pytestmark = pytest.mark.ray

_MAIN = "main(*map(int, sys.argv[1:]))"
_AS_MODULE = f"import sys; from tests.ray.class_program import main; {_MAIN}"
_IN_CELLS = f"""
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell(user_module=sys.modules["__main__"])
source = open("tests/ray/class_program.py").read().rpartition("\\nif __name__")[0]
head, *cells = source.split("\\n\\n\\n")
for cell in [head, *cells, "import sys", "{_MAIN}"]:
    shell.run_cell(cell).raise_error()
"""


def ran(address: str, *command: str, folder: Path = ROOT, **environment: str) -> list[dict[str, Any]]:
    """Run a program on a cluster; return what it says, line by line."""
    environment = {**os.environ, "RAY_ADDRESS": address, "PYTHONPATH": str(ROOT), **environment}
    ended = run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-5000:]
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]


def said(address: str, *arguments: str) -> Any:
    """Return the last line that the program of the ways says."""
    return ran(address, "-m", "tests.ray.class_ways_program", *arguments)[-1]


def all_equal(address: str, command: Sequence[str], pipelines: int, folder: Path = ROOT, **environment: str) -> None:
    """Run random pipelines; fail if one has other results on Ray."""
    seed = secrets.randbelow(1 << 30)
    *different, summary = ran(address, *command, str(seed), str(pipelines), folder=folder, **environment)
    print(f"seed {seed}: {summary}")  # noqa: T201 - pytest shows it where the test fails
    assert different == []
    assert summary["pipelines"] == pipelines
    assert summary["records"] > pipelines


WAYS = {"script": ["-m", "tests.ray.class_program"], "module": ["-c", _AS_MODULE], "notebook": ["-c", _IN_CELLS]}


@pytest.mark.parametrize("way", ["notebook"])
def test_random_pipelines_have_the_results_of_the_local_engine(way: str, ray_cluster: str) -> None:
    """With classes of the cells of a notebook; the long form has those of a script and of a module, too."""
    all_equal(ray_cluster, WAYS[way], 6)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_many_random_pipelines_have_the_results_of_the_local_engine(way: str, ray_cluster: str) -> None:
    """None of two hundred differs."""
    all_equal(ray_cluster, WAYS[way], 200)


@pytest.mark.long
@pytest.mark.parametrize("command", [["script.py"], ["-c", "import sys; from imported import main; " + _MAIN]])
def test_programs_of_a_working_directory_have_the_results_of_the_local_engine(
    command: list[str], ray_cluster: str, tmp_path: Path
) -> None:
    """The script that was submitted with its folder, and a module that lies there."""
    for name in ("imported.py", "script.py"):
        shutil.copy(Path(__file__).with_name("class_program.py"), tmp_path / name)
    submitted = json.dumps({"runtime_env": {"working_dir": str(tmp_path)}})  # as `ray job submit` says it to Ray
    all_equal(ray_cluster, command, 100, tmp_path, RAY_JOB_CONFIG_JSON_ENV_VAR=submitted)


def test_tasks_feed_and_read_the_classes_of_their_program(ray_cluster: str) -> None:
    """So do conditions of subscribers, captures, look-ups, and inputs that check types."""
    found = said(ray_cluster, "tasks", f"tasks-{uuid.uuid4().hex[:8]}")
    assert found == {
        "read": [True] * 8,
        "wanted": [True] * 4,
        "captured": [True] * 8,
        "looked_up": [True] * 2,
        "counts": ["(<Kind.IN: 1>, 2)", "(<Kind.OUT: 2>, 3)"],
    }


@pytest.mark.long
def test_another_program_reads_a_topic_with_its_own_classes(ray_cluster: str) -> None:
    """It defines them as the program does that publishes."""
    topic = f"classes-{uuid.uuid4().hex[:8]}"
    with DriverProcess(ray_cluster, "tests.ray.class_ways_program", "read", topic) as reader:
        ran(ray_cluster, "-m", "tests.ray.class_ways_program", "publish", topic)
        output, errors = reader.ended()
    assert json.loads(output) == {"read": [True] * 3}, errors


def test_a_class_that_is_defined_again_is_an_error(ray_cluster: str) -> None:
    """For the job that has it as it was, and who looks at its captures; a new job has the new class."""
    found = said(ray_cluster, "redefined")
    assert (found["same"], found["again"]) == ([5], [10])
    of_capture, of_job = found["errors"]
    assert of_capture.startswith("JobError: capture 'records' cannot be fetched")
    assert of_job.startswith("JobError: worker")
    assert all("the program has defined class 'Paid' again" in error for error in found["errors"])


@pytest.mark.parametrize("between", [[], pytest.param(["a method more"], marks=pytest.mark.long)])
def test_a_program_goes_on_from_a_snapshot_with_its_own_classes(
    ray_cluster: str, tmp_path: Path, between: list[str]
) -> None:
    """Also if a class got a method or a field with a default; other fields are an error, which names them."""
    for runs, version in enumerate(["as it was", *between, "a field more"], start=1):
        bank = ", bank='none'" if version == "a field more" else ""
        found = [f"Account(name='ann', cents={5 * run}{bank})" for run in range(1, runs + 1)]
        came = said(ray_cluster, "changed", version, str(tmp_path))
        assert came == {"own": [True] * len(found), "found": found}
    error = said(ray_cluster, "changed", "other fields", str(tmp_path))["error"]
    assert "SnapshotError: operator 'accounts' cannot read" in error
    assert "(name, cents, bank)" in error
    assert "(cents, name)" in error
