"""The answer of make to another Python than that of the environment, and the order of the tests that it runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import pytest_xdist_make_scheduler
from tests.packaging.repository import ROOT


def dry_run(environment: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Ask make what it would do."""
    command = ["make", "--dry-run", "test", f"VENV={environment}", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60)


def test_an_environment_of_another_python_is_not_taken_for_it(tmp_path: Path) -> None:
    """Tests that ran with the old one would say that all is well with the new one."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho '(2, 7)'\n")
    python.chmod(0o755)
    refused = dry_run(tmp_path, f"PYTHON={sys.executable}")
    assert refused.returncode != 0
    assert f"is of another Python than {sys.executable}" in refused.stderr
    python.unlink()
    python.symlink_to(sys.executable)
    assert dry_run(tmp_path, f"PYTHON={sys.executable}").returncode == 0


def test_processes_that_share_the_tests_keep_their_order(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files with many tests do not come first: those without a cluster do, as a process keeps a cluster to its end."""
    monkeypatch.setattr(pytestconfig.option, "loadscopereorder", True, raising=False)
    monkeypatch.setattr(pytestconfig.option, "tx", ["popen"], raising=False)
    pytest_xdist_make_scheduler(pytestconfig, None)
    assert not pytestconfig.option.loadscopereorder
