"""House rules that no linter knows."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.repository import FACADE, PACKAGES, ROOT, name_of, shipped_modules


def _calls(source: str, function: str) -> Iterator[int]:
    """The lines that call `function`: `print`, or `time.sleep` also as `from time import sleep`."""
    module, _, name = function.rpartition(".")
    if name not in source:
        return
    tree = ast.parse(source)
    local = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == module
        for alias in node.names
        if alias.name == name
    }
    spellings = local | {function}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _dotted(node.func) in spellings:
            yield node.lineno


def _dotted(node: ast.expr) -> str:
    """The dotted name that an expression is, or one that no function has."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_dotted(value)}.{name}"
        case _:
            return "()"


def _calls_in(modules: list[Path], function: str) -> list[str]:
    return [f"{name_of(module)}:{line}" for module in modules for line in _calls(module.read_text(), function)]


@pytest.mark.parametrize(
    ("source", "function"),
    [
        ("import time\ntime.sleep(1)", "time.sleep"),
        ("from time import sleep as nap\nnap(1)", "time.sleep"),
        ("'print(1)'\nprint(1)", "print"),
    ],
)
def test_calls_are_found(source: str, function: str) -> None:
    """The two rules below see each spelling of a call, and no call in a string."""
    assert list(_calls(source, function)) == [2]


def test_no_test_sleeps() -> None:
    """A test waits for an event with a deadline, so it is neither slow on a fast machine nor flaky on a slow one."""
    assert _calls_in(sorted((ROOT / "tests").rglob("*.py")), "time.sleep") == []


def test_the_library_does_not_print() -> None:
    """Output belongs to the user's program; only `python -m tidewheel` writes to it."""
    command_line = FACADE / "__main__.py"
    assert _calls_in([module for module in shipped_modules() if module != command_line], "print") == []


def test_what_starts_ray_or_spark_is_marked() -> None:
    """`make fast` starts neither: every file in tests/ray/ and tests/spark/ marks all its tests."""
    unmarked = [
        name_of(module)
        for folder in ("ray", "spark")
        for module in (ROOT / "tests" / folder).rglob("test_*.py")
        if not re.search(rf"^pytestmark = .*pytest\.mark\.{folder}\b", module.read_text(), re.MULTILINE)
    ]
    assert unmarked == []


def test_pages_name_files_that_exist() -> None:
    """A page that names a module, a folder or another page of this repository names one that is there."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    roots = "|".join((*PACKAGES, "src", "tests", "examples", "benchmarks", "docs"))
    named = re.compile(rf"`((?:{roots})/[\w./-]*)`")
    found = [
        f"{name_of(page)}: {name}"
        for page in pages
        for name in named.findall(page.read_text("utf-8"))
        if not (ROOT / name).exists()
    ]
    assert found == []


def test_shards_alone_map_hashes_to_workers() -> None:
    """What finds the owner of a key by arithmetic of its own would look for its state on another worker."""
    arithmetic = re.compile(r"hash\w*(\(.*\))?\)? *[%&] .*\b_?(workers|SHARDS)\b")
    found = [
        f"{name_of(module)}: {line.strip()}"
        for module in shipped_modules()
        for line in module.read_text().splitlines()
        if arithmetic.search(line) and name_of(module) != "runtime/description/shards.py"
    ]
    assert found == []
    assert arithmetic.search("parts[stable_hash(mark.key) % self._workers]")
    assert arithmetic.search("hashes & np.uint64(workers - 1)")
