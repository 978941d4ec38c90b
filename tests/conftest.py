"""What every test shares: the Hypothesis profile, and a seed that is said aloud so that a run can be repeated."""

import re
import secrets
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tidewheel.spark_bridge.java import find_java, java_environment

# Not on top of the profile that Hypothesis loads by itself where CI is set: it makes the same choices on every run.
settings.register_profile("tidewheel", settings.get_profile("default"), deadline=None, print_blob=True)
settings.load_profile("tidewheel")

_SHELLS = ("bash", "env", "sh")
_TOOLS = ("basename", "cat", "cut", "dirname", "expr", "grep", "ls", "nice", "ps", "readlink", "setsid", "tty", "uname")

_SPARK_SOCKET = r"ignore:unclosed <socket\.socket.*127\.0\.0\.1:ResourceWarning"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of Hypothesis here unless `--hypothesis-seed` names one, so that it can be printed."""
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(secrets.randbits(32))


def _how_to_repeat(config: pytest.Config) -> str:
    return f"repeat the random choices of this run with: --hypothesis-seed={config.option.hypothesis_seed}"


def pytest_report_header(config: pytest.Config) -> str:
    """Say the seed at the top of a run."""
    return _how_to_repeat(config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Say the seed again beside the failures, where it is wanted, also under `-q`."""
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        terminalreporter.write_line(_how_to_repeat(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let PySpark leave a local socket open whenever it fetches a result; nobody else may. Put the lots in order.

    What needs no cluster runs in a process that has not had one yet. Where several share the tests, the lot that takes
    longest begins at once.
    """
    order = ["cluster", "", "topics", "benchmarks"] if hasattr(config, "workerinput") else ["", "cluster", "topics"]
    lots = {path: _lot(config, path) for path in {item.nodeid.partition("::")[0] for item in items}}
    items.sort(key=lambda item: order.index(lot) if (lot := lots[item.nodeid.partition("::")[0]]) in order else 9)
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.filterwarnings(_SPARK_SOCKET))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Have only tests on Ray find a cluster: one of other tests may be about to go, and Ray waits long for it."""
    with pytest.MonkeyPatch.context() as patch:
        if not _is_on_ray(item):
            patch.setenv("RAY_ADDRESS", "127.0.0.1:1")
        return (yield)


def _is_on_ray(item: pytest.Item) -> bool:
    marked = any(item.get_closest_marker(name) for name in ("ray", "spark"))
    return marked or item.path.is_relative_to(item.config.rootpath / "tests" / "benchmarks")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep tests on Ray or Spark in one process where several share the tests: they look for what is left.

    Benchmarks, and tests of topics, start processes of their own and look at nothing else; they are lots of their own,
    with another Ray.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc,unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return _lot(config, path) or path

    return Scheduling(config, log)


def _lot(config: pytest.Config, path: str) -> str:
    """Return which lot a file is of; empty for one that is a lot of its own."""
    if path.startswith("tests/benchmarks/"):
        return "benchmarks"
    if path.startswith("tests/ray/topics/"):
        return "topics"
    return "cluster" if _starts_a_cluster(config.rootpath / path) else ""


@cache
def _starts_a_cluster(path: Path) -> bool:
    return re.search(r"pytest\.mark\.(ray|spark)\b", path.read_text(encoding="utf-8")) is not None


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[str]:
    """Start Ray on this machine for all tests that need it; give its address, for ``RAY_ADDRESS`` of other processes.

    It starts with a Java that Spark can use, because a Ray node looks for Java only then.
    """
    import ray

    if ray.is_initialized():  # a test of topics has found a cluster of somebody else's on this machine
        ray.shutdown()
    with java_environment(find_java()):
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, namespace="tidewheel")
    yield str(ray.get_runtime_context().gcs_address)
    ray.shutdown()


@pytest.fixture
def path_without_java(tmp_path: Path) -> str:
    """Return a PATH with the programs that Spark's and Ray's scripts call, and no Java."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in _SHELLS + _TOOLS:
        found = shutil.which(tool)
        if found is not None:
            (folder / tool).symlink_to(found)
    assert shutil.which("java", path=str(folder)) is None
    return str(folder)
