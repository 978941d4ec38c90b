"""What the tests of the package share: the trees of modules, as long as the rules look at them, and a wheel."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.repository import PACKAGES, ROOT, tree_of


@pytest.fixture(scope="package", autouse=True)
def forget_trees() -> Iterator[None]:
    """Have no collection of garbage look at them later."""
    yield
    tree_of.cache_clear()


@pytest.fixture(scope="package")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the sources, links included, without any network."""
    copy = tmp_path_factory.mktemp("sources")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("src", *PACKAGES):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    wheels = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-build-isolation", "--wheel-dir", str(wheels), str(copy)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    (made,) = wheels.glob("*.whl")
    return made
