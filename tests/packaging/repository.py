"""The repository as the packaging tests see it: its folders, its modules, and what each of them imports."""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FACADE = ROOT / "src" / "tidewheel"
PACKAGES = tuple(sorted(entry.name for entry in FACADE.iterdir() if entry.is_symlink()))


def pyproject() -> dict[str, Any]:
    """The contents of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def package_modules(package: str) -> list[Path]:
    """The modules of one root folder, in a fixed order."""
    return sorted((ROOT / package).rglob("*.py"))


def page_files() -> list[Path]:
    """The files of the live page, which ship as they are, in a fixed order."""
    folder = ROOT / "console" / "page" / "files"
    return sorted(path for path in folder.rglob("*") if path.is_file())


def shipped_modules() -> list[Path]:
    """Every module that a user gets, each named once, by its place in the root folders and not by a link."""
    return sorted(FACADE.glob("*.py")) + [module for package in PACKAGES for module in package_modules(package)]


def all_modules() -> list[Path]:
    """The modules that a user gets, and those of the tests, examples, benchmarks and documentation."""
    folders = ("tests", "examples", "benchmarks", "docs")
    others = [module for folder in folders for module in (ROOT / folder).rglob("*.py")]
    return shipped_modules() + sorted(others)


def name_of(module: Path) -> str:
    """The module's path from the root of the repository, for messages."""
    return module.relative_to(ROOT).as_posix()


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name, in full: `from a.b import c` is `a.b.c`, whether `c` is a module or not."""

    name: str
    line: int
    relative: bool

    @property
    def top(self) -> str:
        """The first part of the name."""
        return self.name.partition(".")[0]

    @property
    def layer(self) -> str | None:
        """The part of tidewheel that is imported, `facade` for its public names; None if it is another library."""
        if self.top != "tidewheel":
            return None
        second = self.name.split(".")[1:2]
        return second[0] if second and second[0] in PACKAGES else "facade"


@cache
def tree_of(module: Path) -> ast.Module:
    """The syntax tree of a module, kept for the next rule."""
    return ast.parse(module.read_text("utf-8"))


@cache
def imports_of(module: Path) -> tuple[Import, ...]:
    """Every import of a module, kept for the next rule."""
    return tuple(imports_in(module.read_text("utf-8")))


def imports_in(source: str) -> Iterator[Import]:
    """Every import of a module: at its top, in functions, under TYPE_CHECKING, and by name through importlib."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (Import(alias.name, node.lineno, relative=False) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                prefix = f"{module}." if module else ""
                yield from (Import(prefix + alias.name, node.lineno, relative=level > 0) for alias in names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield Import(name.lstrip("."), node.lineno, relative=name.startswith("."))
