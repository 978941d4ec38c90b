"""The root folders, the links in src/tidewheel/ and the wheel say the same."""

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit
from zipfile import ZipFile

import pytest

from tests.packaging.repository import FACADE, PACKAGES, ROOT, package_modules, page_files


@pytest.fixture(scope="module")
def wheel_contents(wheel: Path) -> set[str]:
    """The names of the files in the wheel."""
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    assert len(names) == len(set(names)), "a file is in the wheel twice"
    return set(names)


def test_wheel_holds_every_module_once_under_tidewheel(wheel_contents: set[str]) -> None:
    """A wheel has exactly the modules of the root folders and the facade, and the page's files and Java's: no tests."""
    expected = {f"tidewheel/{module.name}" for module in FACADE.glob("*.py")} | {"tidewheel/py.typed"}
    for package in PACKAGES:
        expected |= {f"tidewheel/{module.relative_to(ROOT).as_posix()}" for module in package_modules(package)}
    expected |= {f"tidewheel/{path.relative_to(ROOT).as_posix()}" for path in page_files()}
    expected.add("tidewheel/spark_bridge/java_without_vector/bin/java")
    assert {name for name in wheel_contents if ".dist-info/" not in name} == expected


def test_wheel_says_that_it_is_typed_and_licensed(wheel_contents: set[str]) -> None:
    """Type checkers of users see the annotations (PEP 561), and the license travels with the code."""
    assert "tidewheel/py.typed" in wheel_contents
    assert [name for name in wheel_contents if name.endswith(".dist-info/licenses/LICENSE")]


def test_each_root_package_has_its_relative_link() -> None:
    """Tools that read sources through src/ see each package, in every clone, wherever it lies."""
    links = {entry.name: entry.readlink() for entry in FACADE.iterdir() if entry.is_symlink()}
    assert links == {package: Path("..", "..", package) for package in PACKAGES}
    assert sorted(links) == sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))
    assert all((FACADE / package / "__init__.py").is_file() for package in PACKAGES)


def test_installation_imports_its_checkout_from_anywhere(tmp_path: Path) -> None:
    """In an editable install each package is the folder of the checkout, and none of them is a top-level package.

    pip notes which checkout that is. It is another one than that of this test where two share an environment.
    """
    program = f"""
import importlib, importlib.metadata, importlib.util, pathlib
print(importlib.metadata.distribution("tidewheel").read_text("direct_url.json"))
for package in {PACKAGES!r}:
    module = importlib.import_module(f"tidewheel.{{package}}")
    assert importlib.util.find_spec(package) is None, f"{{package}} can be imported without tidewheel"
    assert isinstance(module.__file__, str), f"tidewheel.{{package}} has no __init__.py"
    print(pathlib.Path(module.__file__).resolve().parent)
"""
    command = [sys.executable, "-I", "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    origin, *folders = ran.stdout.splitlines()
    installed = json.loads(origin)
    assert installed["dir_info"] == {"editable": True}
    checkout = Path(unquote(urlsplit(installed["url"]).path)).resolve()
    assert folders == [str(checkout / package) for package in PACKAGES]
