"""Private parts of Ray, Spark, RayDP, Py4J, pyarrow, cloudpickle and the gateway's libraries have three doors."""

import ast
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import version

import pytest

from tests.packaging.repository import (
    Import,
    imports_in,
    imports_of,
    name_of,
    pyproject,
    shipped_modules,
    tree_of,
)
from tidewheel.spark_bridge.spark_release import installed

DOORS = {"host/cloudpickle_internals.py", "host/ray_internals.py", "spark_bridge/jvm.py"}
LIBRARIES = {
    "cloudpickle",
    "prometheus_client",
    "py4j",
    "pyarrow",
    "pyspark",
    "ray",
    "raydp",
    "starlette",
    "uvicorn",
    "websockets",
    "zmq",
}
TESTED = ("cloudpickle", "py4j", "pyarrow", "pyspark", "ray", "raydp")
KNOWN = {
    "_active_spark_context",
    "_actor_id",
    "_gateway",
    "_global_spark_context",
    "_jdf",
    "_jsc",
    "_jsparkSession",
    "_jsq",
    "_jvm",
    "_spark_cluster",
    "_spark_session",
}
"""Names of theirs that are refused even if a module of ours has an attribute of the same name."""
_METHODS_OF_STANDARD_TYPES = {"_field_defaults", "_fields", "_replace"}
_READS = {"getattr", "setattr", "hasattr", "delattr"}


def is_private(name: str) -> bool:
    """Whether a name begins with one underscore."""
    return name.startswith("_") and not name.startswith("__")


def own_names(tree: ast.AST) -> set[str]:
    """Private names that a module defines: methods, fields, slots, and what it assigns to its own objects."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
    return found


def private_uses(tree: ast.Module, imports: Iterable[Import], own: set[str]) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each use of a private part of a library.

    Args:
        tree: of a module.
        imports: of the module.
        own: private names that tidewheel defines.
    """
    for imported in imports:
        if imported.top in LIBRARIES and any(map(is_private, imported.name.split("."))):
            yield imported.line, imported.name
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name) if name not in KNOWN:
                continue
            case ast.Attribute(attr=name) if is_private(name) and (name in KNOWN or name not in own):
                yield node.lineno, ast.unparse(node)
            case ast.Attribute(attr="apache", value=ast.Attribute(attr="org")):
                yield node.lineno, ast.unparse(node)
            case ast.Call(func=ast.Name(id=read), args=[_, ast.Constant(value=str(name)), *_]) if read in _READS:
                if is_private(name) and (name in KNOWN or name not in own):
                    yield node.lineno, ast.unparse(node)
            case ast.Attribute(attr="getweakrefs"):
                yield node.lineno, ast.unparse(node)


@pytest.mark.parametrize(
    "source",
    [
        "from ray._private.worker import global_worker",
        "import ray._raylet",
        "from pyarrow import _flight",
        "def f(df):\n    return df._jdf",
        "spark.sparkContext._jsc.stop()",
        "getattr(spark, '_jvm')",
        "setattr(raydp.context, '_global_spark_context', None)",
        "raydp.context._global_spark_context._spark_cluster = None",
        "jvm.org.apache.spark.rdd.RDD",
        "weakref.getweakrefs(server)",
    ],
)
def test_every_way_to_a_private_part_is_seen(source: str) -> None:
    """The rule below cannot be passed by importing in a function, by assigning, or by getattr."""
    assert list(private_uses(ast.parse(source), imports_in(source), own=set()))


def test_private_parts_of_libraries_are_used_in_three_modules() -> None:
    """A release of a library that changes one is adapted to in one place, where a contract test tells of it."""
    own = _METHODS_OF_STANDARD_TYPES.union(*(own_names(tree_of(path)) for path in shipped_modules()))
    own |= {"_is_protocol"}  # of typing, which has no public name for it before Python 3.13
    found = [
        f"{name_of(path)}:{line}: {text}"
        for path in shipped_modules()
        if name_of(path) not in DOORS
        for line, text in private_uses(tree_of(path), imports_of(path), own)
    ]
    assert found == []


@pytest.mark.parametrize("library", TESTED)
def test_only_releases_are_allowed_that_the_contracts_were_tested_with(library: str) -> None:
    """The upper bound of each library is right above the release that is installed here, so a new one is looked at."""
    project = pyproject()["project"]
    spark = "spark4" if installed().converts_arrow else "spark"
    lines = project["dependencies"] + project["optional-dependencies"][spark]
    (line,) = [line.partition(";")[0] for line in lines if re.match(rf"{library}\b", line)]
    (bound,) = re.findall(r"<(=?)([\d.]+)", line)
    release = tuple(map(int, re.findall(r"\d+", version(library))))  # of a pre-release, what it is before
    limit = tuple(map(int, bound[1].split(".")))
    if bound[0]:
        assert release == limit
    else:
        assert release < limit
        assert limit == (*release[: len(limit) - 1], release[len(limit) - 1] + 1)
