"""Programs that tests run in processes of their own, as a process has one Spark session."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def run_program(name: str, root: Path, *arguments: str, **variables: str) -> Mapping[str, Any]:
    """Run a program of this folder, and return the JSON object that is its last line.

    Args:
        name: of its module.
        root: the folder of the checkout.
        arguments: of the command line.
        variables: of the environment, to be set.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables}
    environment.pop("RAY_ADDRESS", None)
    command = [sys.executable, "-m", f"tests.spark.{name}", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment, cwd=root)
    assert ran.returncode == 0, ran.stderr
    seen: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return seen
