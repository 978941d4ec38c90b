"""Processes share the tests file by file, and go on where one of them crashes."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.packaging.repository import ROOT

TESTS = [f"tests/unit/{file}.py::test_{number}" for file in "abcdefghij" for number in range(3)]


class Process:
    """A process of pytest-xdist. It runs a test when it has the next one too, or will get no more.

    Args:
        name: by which pytest-xdist knows it.
    """

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.waiting: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.waiting += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    def run(self, scheduling: Any) -> str | None:
        """Run the next test, if it can, and return its name."""
        if len(self.waiting) < (1 if self.shutting_down else 2):
            return None
        done = self.waiting.pop(0)
        scheduling.mark_test_complete(self, done)
        return TESTS[done]


def begun(config: pytest.Config, processes: list[Process]) -> Any:
    """Return the scheduling of this project's tests, when each process has its first ones."""
    [conftest] = (one for one in config.pluginmanager.get_plugins() if _is_ours(one))
    values = {"tx": ["popen"] * len(processes)}
    shared = SimpleNamespace(option=SimpleNamespace(), rootpath=ROOT, getvalue=values.get)
    scheduling = conftest.pytest_xdist_make_scheduler(shared, None)
    for process in processes:
        scheduling.add_node(process)
    for process in processes:
        scheduling.add_node_collection(process, TESTS)
    scheduling.schedule()
    return scheduling


def _is_ours(plugin: Any) -> bool:
    return getattr(plugin, "__file__", None) == str(ROOT / "tests" / "conftest.py")


@pytest.mark.parametrize("done_before", range(8))
def test_the_others_run_what_a_crashed_process_has_not_done(pytestconfig: pytest.Config, done_before: int) -> None:
    """They get the files that it had, but for those that it has done: a process with nothing to run would wait."""
    processes = [Process("gw0"), Process("gw1")]
    scheduling = begun(pytestconfig, processes)
    crashes = processes.pop(0)
    done = [crashes.run(scheduling) for _ in range(done_before)]
    assert None not in done
    assert scheduling.remove_node(crashes) == TESTS[crashes.waiting[0]]
    new = Process("gw2")
    scheduling.add_node(new)
    scheduling.add_node_collection(new, TESTS)
    scheduling.schedule()
    processes.append(new)
    while any(found := [process.run(scheduling) for process in processes]):
        done += [test for test in found if test is not None]
    assert sorted(filter(None, done)) == sorted(TESTS)
