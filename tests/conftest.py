"""The common part of all tests: the Hypothesis profile, and the seed of all random choices, which a run prints."""

import gc
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache, partialmethod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.kit import extras, seeds
from tests.kit.cluster.worker_nursery import PROGRAM, worker_nursery
from tests.kit.messages import BOOK
from tests.kit.stores.s3_fixtures import bucket, s3_endpoint, s3_environment, s3_port, use_endpoint  # noqa: F401 - fixtures
from tidewheel.spark_bridge.java import find_java, java_environment

# Not on top of the profile that Hypothesis loads by itself where CI is set: it makes the same choices on every run.
settings.register_profile("tidewheel", settings.get_profile("default"), deadline=None, print_blob=True)
settings.load_profile("tidewheel")

_SHELLS = ("bash", "env", "sh")
_TOOLS = ("basename", "cat", "cut", "dirname", "expr", "grep", "ls", "nice", "ps", "readlink", "setsid", "tty", "uname")

_TESTS = Path(__file__).parent
_SPARK = "tests/spark"
"""The tests on the same Spark session."""

_RULES = "tests/packaging"
"""The tests that share the syntax trees of all modules."""

_LONGEST = (
    "spark",
    "ray/topics",
    "docs/test_tutorial.py",
    "ray/test_job.py",
    "ray/test_lost_cluster.py",
    "docs/test_readme.py",
    "ray/test_kills.py",
    "examples/test_dependencies.py",
)
"""The longest tests on a cluster, in this order. `spark` is one lot, of minutes.

Other tests are between those that start Spark: two Sparks that start at once on two cores take long.
"""

_STARTS = {
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "RAY_LOG_MONITOR_MANY_FILES_THRESHOLD": "1",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_worker_niceness": "0",
}
"""Settings of processes: Java, which runs for seconds here, compiles fast rather than well, with one collector thread.

Ray lists its logs twice a second, not ten times, and starts no workers before they are asked for. These are not nicer
than the tests that wait for them: on two cores they would hardly start.
"""

_PROCESSES = 3
"""As many share the tests in `make test`."""

_OF_SPARK = {name: os.environ.get(name) for name in ("JAVA_HOME", "PATH", "PYSPARK_PYTHON")}
"""The variables that a Spark session sets in its process for as long as it lasts, as this process has found them."""

_SPARK_SOCKET = r"ignore:unclosed <socket\.socket.*127\.0\.0\.1:ResourceWarning"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that have tests write the messages of errors, and that let none be skipped for an extra."""
    parser.addoption("--write-messages", action="store_true", help="put the words of errors into tests/messages.txt")
    parser.addoption("--every-extra", action="store_true", help="refuse to run where an extra is not installed")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of all tests here unless `--hypothesis-seed` names one, so that it can be printed."""
    if config.option.every_extra and extras.MISSING:
        missing = ", ".join(f"{library} of the extra {extra!r}" for library, extra in extras.MISSING.items())
        raise pytest.UsageError(f"not installed: {missing}. Without --every-extra, the tests that need it are skipped")
    config.pluginmanager.register(extras)
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(secrets.randbits(32))
    os.environ[seeds.RUN] = config.option.hypothesis_seed
    BOOK.is_written = config.option.write_messages
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        _have_an_environment(config)
    if hasattr(config, "workerinput"):
        config.args = _begun_elsewhere(config.rootpath, config.args, int(config.workerinput["workerid"][2:]))


def _begun_elsewhere(root: Path, arguments: list[str], process: int) -> list[str]:
    """Return what a process collects tests from: the same for each process, in an order of its own.

    The first process that imports a file keeps it compiled, which takes longer than the rest of the import. If all of
    them had one order, all would compile the same files at the same time.
    """
    folders = [root / argument for argument in arguments]
    if not all(folder.is_dir() for folder in folders):
        return arguments
    inner = [path for folder in folders for path in sorted(folder.iterdir()) if path.is_dir() or path.suffix == ".py"]
    if not inner or root in folders:  # the root has folders in which there is nothing to collect, such as .venv
        return arguments
    start = process * len(inner) // _PROCESSES % len(inner)
    return [str(path) for path in inner[start:] + inner[:start] if path.name != "__pycache__"]


def _have_an_environment(config: pytest.Config) -> None:
    """Give this process, and all that it starts, a folder of its own for temporary files until its end, and `_STARTS`.

    So nothing that another process of tests has is found in it: neither the address of its Ray cluster nor the sockets
    of its jobs. Its path is short, as those of sockets have to be. What `tmp_path` gives is elsewhere, and stays.
    """
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.setenv("PYTEST_DEBUG_TEMPROOT", os.environ.get("PYTEST_DEBUG_TEMPROOT") or tempfile.gettempdir())
    for name, value in _STARTS.items():
        patch.setenv(name, os.environ.get(name, value))
    folder = tempfile.mkdtemp(prefix="tw-", dir="/tmp")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    patch.setenv("TMPDIR", folder)
    patch.setattr(tempfile, "tempdir", folder)


def _how_to_repeat(config: pytest.Config) -> str:
    return f"repeat the random choices of this run with: --hypothesis-seed={config.option.hypothesis_seed}"


def pytest_sessionfinish() -> None:
    """Write the messages that tests have met, if that is asked for."""
    if BOOK.is_written:
        BOOK.save()


def pytest_report_header(config: pytest.Config) -> str:
    """Say the seed at the top of a run."""
    return _how_to_repeat(config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Say the seed again beside the failures, where it is wanted, also under `-q`."""
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        terminalreporter.write_line(_how_to_repeat(config))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let PySpark leave a local socket open whenever it fetches a result; nobody else may. Put the items in order.

    What needs no cluster runs in a process that has not had one yet. Of the rest, what takes longest comes first, so
    that processes that share the tests end together. Files are in the order of their paths, wherever a process has
    begun to collect.
    """
    items.sort(key=lambda item: (_turn(item.path), item.path.parts))
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.filterwarnings(_SPARK_SOCKET))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Have later collections of garbage leave alone all that is there: half a million objects, a third of a second."""
    gc.collect()
    gc.freeze()


@cache
def _turn(path: Path) -> int:
    """Return when the tests of a file have their turn: 0 for those without a cluster, benchmarks last."""
    if path.is_relative_to(_TESTS / "benchmarks"):
        return len(_LONGEST) + 2
    if re.search(r"pytest\.mark\.(ray|spark)\b", path.read_text(encoding="utf-8")) is None:
        return 0
    turns = (turn for turn, longest in enumerate(_LONGEST, start=1) if path.is_relative_to(_TESTS / longest))
    return next(turns, len(_LONGEST) + 1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Have only tests on Ray find a cluster, and only those of `spark` what their Spark session has set.

    A cluster of other tests may be about to go, and Ray waits long for it.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not _is_on_ray(item):
            patch.setenv("RAY_ADDRESS", "127.0.0.1:1")
        if not item.path.is_relative_to(_TESTS / "spark"):
            for name, value in _OF_SPARK.items():
                patch.delenv(name, raising=False) if value is None else patch.setenv(name, value)
        return (yield)


def _is_on_ray(item: pytest.Item) -> bool:
    marked = any(item.get_closest_marker(name) for name in ("ray", "spark"))
    return marked or item.path.is_relative_to(item.config.rootpath / "tests" / "benchmarks")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Have each file's tests run in one process, and those of `_SPARK` and `_RULES`, where several share the tests.

    Each process has a Ray cluster and a temporary folder of its own, and looks only there for what a job has left. The
    last one of three begins with the tests on a cluster, which mostly wait, while the others compute.
    Files keep their order: a process that has had a cluster keeps it.
    """
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc,unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return next((folder for folder in (_SPARK, _RULES) if path.startswith(f"{folder}/")), path)

        def _assign_work_unit(self, node: Any) -> None:
            if len(self.nodes) > 2 and node is self.nodes[-1]:
                files = (one for one in self.workqueue if one != _RULES)
                waits = (one for one in files if one == _SPARK or _turn(config.rootpath / one))
                self.workqueue.move_to_end(next(waits, next(iter(self.workqueue))), last=False)
            super()._assign_work_unit(node)

        def remove_node(self, node: Any) -> str | None:
            """Let go of a process that has ended; the others get the files that one which has crashed has not done.

            pytest-xdist would give them those that it has done, too. A process that gets such a file waits for ever.
            """
            files = self.assigned_work[node]
            self.assigned_work[node] = {file: tests for file, tests in files.items() if not all(tests.values())}
            ended: str | None = super().remove_node(node)
            return ended

    return Scheduling(config, log)


@pytest.fixture(scope="session")
def ray_cluster(s3_port: int) -> Iterator[str]:  # noqa: F811
    """Start Ray on this machine for all tests that need it; give its address, for ``RAY_ADDRESS`` of other processes.

    It starts with a Java that Spark can use, because a Ray node looks for Java only then. Its processes find the S3
    server of the tests, if one of them has started it.
    """
    import ray
    from ray._private.parameter import RayParams

    if ray.is_initialized():  # a test has found a cluster of somebody else's on this machine
        ray.shutdown()
    with worker_nursery(Path(tempfile.gettempdir()) / "nursery") as variables:
        with java_environment(find_java()), pytest.MonkeyPatch.context() as environment:
            use_endpoint(f"http://127.0.0.1:{s3_port}", environment)
            for name, value in {**variables, "RAY_gcs_server_port_wait_time_s": "120"}.items():
                environment.setenv(name, value)
            environment.setattr(RayParams, "__init__", partialmethod(RayParams.__init__, worker_path=str(PROGRAM)))
            for tries_left in (2, 1, 0):
                try:
                    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, namespace="tidewheel")
                    break
                except Exception:  # Ray waits 30 s for its node, which is not enough on a machine that is busy
                    ray.shutdown()
                    if not tries_left:
                        raise
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
