"""The main example as users run it."""

import os
import re
import subprocess
import sys

import pytest

from tests.examples.dependency_graph import DependencyGraph
from tests.examples.index import programs
from tests.packaging.repository import ROOT


@pytest.mark.spark
def test_demo_from_spark_through_a_loop_to_a_subscriber_and_back(path_without_java: str) -> None:
    """`make demo` without a system Java: every stage runs, the subscriber sees every epoch, the numbers are scipy's."""
    unset = {"JAVA_HOME", "RAY_ADDRESS"}
    environment = {name: value for name, value in os.environ.items() if name not in unset} | {"PATH": path_without_java}
    command = [sys.executable, "-m", "examples.spark.dependencies"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=480, check=False, cwd=ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
    for name in ("dependencies", "watch_components"):
        assert programs()[name].has_printed(run.stdout), run.stdout
    seen = [int(epoch) for epoch in re.findall(r"\[subscriber\] epoch (\d+)", run.stdout)]
    assert seen == list(range(8)), run.stdout
    graph = DependencyGraph.load(epochs=1)
    sizes: dict[int, int] = {}
    for component, _ in graph.expected(graph.names.index("gnome"), 0).values():
        sizes[component] = sizes.get(component, 0) + 1
    largest, size = max(sizes.items(), key=lambda item: item[1])
    assert re.search(rf"\|\s*{size}\|\s*{re.escape(graph.names[largest])}\s*\|", run.stdout), run.stdout
    seconds = re.search(r"([\d.]+) s  dataflow run to its end", run.stdout)
    assert seconds is not None
    assert float(seconds[1]) < 15, run.stdout
