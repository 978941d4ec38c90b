"""The wheel alone, in an environment that has the core's libraries and no other ones: all but the extras runs."""

import json
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.packaging.repository import ROOT, name_of, pyproject, shipped_modules
from tests.packaging.test_imports import HOMES

CORE_MIB = 520
"""The most that the core and its libraries take, without compiled modules."""

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python"]

PROGRAM = """
import importlib, json, sys, time
began_s = time.perf_counter()
import tidewheel as tw
took_s = time.perf_counter() - began_s
for module in json.loads(sys.argv[2]):
    importlib.import_module(module)
flow = tw.Dataflow("words")
flow.input("lines", str).flat_map(str.split).count().sort().capture("counts")
with tw.run(flow, workers=2, engine=sys.argv[1]) as job:
    with job.input("lines") as lines:
        lines.send(["to be or not to be"])
    job.wait(timeout_s=60)
    counts = [pair for entry in job.captured("counts") for pair in entry.batch]
from tidewheel.spark_bridge import BridgeError, session
try:
    with session("none"):
        raise SystemExit("Spark is there")
except BridgeError as error:
    refused = str(error)
print(json.dumps([took_s, counts, refused, tw.__file__]))
"""


@pytest.fixture(scope="module")
def core() -> dict[str, Distribution]:
    """The distributions that `pip install tidewheel` would bring here, by name: what it names, and what those name."""
    found: dict[str, Distribution] = {}
    wanted = [Requirement(line) for line in pyproject()["project"]["dependencies"]]
    while wanted:
        one = wanted.pop()
        if one.name not in found and (one.marker is None or one.marker.evaluate({"extra": ""})):
            found[one.name] = distribution(one.name)
            wanted += [Requirement(line) for line in found[one.name].requires or []]
    return found


@pytest.fixture
def environment(tmp_path: Path, core: dict[str, Distribution], wheel: Path) -> Path:
    """An environment with the wheel and links to the core's libraries of this one; return its Python."""
    python = _new_environment(tmp_path)
    (folder,) = tmp_path.glob("lib/python*/site-packages")
    for one in core.values():
        for name in {file.parts[0] for file in one.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            if not (folder / name).exists():
                (folder / name).symlink_to(Path(str(one.locate_file(name))))
    _run(*PIP, str(python), "install", "--quiet", "--no-deps", "--no-compile", str(wheel))
    return python


def _new_environment(folder: Path) -> Path:
    _run(sys.executable, "-m", "venv", "--without-pip", str(folder))
    return folder / "bin" / "python"


def _run(*command: str) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd="/")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def _modules() -> list[str]:
    """The modules that need no extra."""
    homes = tuple(home for extra in HOMES.values() for home in extra)
    names = [name_of(module) for module in shipped_modules()]
    inside = [name for name in names if not name.startswith((*homes, "src/"))]
    return [f"tidewheel.{name.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}" for name in inside]


def _check(python: Path, engine: str) -> None:
    """Check what the program prints there."""
    said = _run(str(python), "-I", "-W", "error", "-c", PROGRAM, engine, json.dumps(_modules()))
    took_s, counts, refused, file = json.loads(said.splitlines()[-1])
    assert Path(file).is_relative_to(python.parents[1])
    assert counts == [["be", 2], ["not", 1], ["or", 1], ["to", 2]]
    assert "pip install 'tidewheel[spark" in refused
    assert took_s < 0.3


def test_the_wheel_runs_a_dataflow_with_the_libraries_of_the_core_alone(environment: Path) -> None:
    """No module outside of the extras' folders imports another library, and what is missing is named."""
    _check(environment, "local")


def test_the_core_is_light(core: dict[str, Distribution], wheel: Path) -> None:
    """Most of it is Ray and Arrow. pyspark alone would be as much again."""
    files = [file.locate() for one in core.values() for file in one.files or [] if file.suffix != ".pyc"]
    total = sum(Path(str(file)).stat().st_size for file in files if Path(str(file)).is_file())
    assert total < CORE_MIB * 2**20
    assert {"ray", "pyarrow"} <= set(core)
    assert not {"pandas", "pyspark", "raydp", "starlette"} & set(core)


@pytest.mark.ray
@pytest.mark.long
def test_pip_installs_the_wheel_into_an_empty_environment(tmp_path: Path, wheel: Path) -> None:
    """With nothing but what the wheel names, at the versions of the tests, a job runs on Ray."""
    python = _new_environment(tmp_path)
    constraints = str(ROOT / "constraints.txt")
    _run(*PIP, str(python), "install", "--quiet", "--no-compile", "--constraint", constraints, str(wheel))
    installed = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file() and not file.is_symlink())
    assert installed < CORE_MIB * 2**20
    _check(python, "ray")
