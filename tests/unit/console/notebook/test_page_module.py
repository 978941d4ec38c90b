"""The module that a notebook loads has what the page's own files have, and nothing that leads elsewhere."""

import json
import re

from tests.packaging.repository import page_files
from tidewheel.console.notebook.page_module import page_module


def files() -> dict[str, str]:
    """Return the files in the module."""
    found = re.search(r"^const files = (.*);$", page_module(), re.MULTILINE)
    assert found is not None
    return dict(json.loads(found[1]))


def test_the_module_has_the_files_of_the_page_as_they_are() -> None:
    """So there is one drawing of a job; the list of jobs, and what reads an address, are not among them."""
    of_page = {path.as_posix().partition("/page/files/")[2]: path.read_text() for path in page_files()}
    found = files()
    assert {"widget.js", "plot.js", "job_view.js", "graph.js", "charts.js", "page.css", "graph.css"} <= found.keys()
    assert not {"main.js", "jobs_view.js", "address.js", "index.html"} & found.keys()
    assert {name for name, text in found.items() if of_page[name] != text} == {"vendor/uPlot.js"}
    assert found["vendor/uPlot.js"].startswith(of_page["vendor/uPlot.js"])


def test_each_import_is_in_the_module() -> None:
    """By a relative path in the form that the module replaces, and in no circle."""
    found = files()
    ways = {
        name: re.findall(r'^(?:import|export) .* from "\./(.*)";$', text, re.MULTILINE)
        for name, text in found.items()
        if name.endswith(".js") and not name.startswith("vendor/")
    }
    assert {name: len(others) for name, others in ways.items()} == {
        name: len(re.findall(r"\bfrom ?\"\.|\bimport\(", found[name])) for name in ways
    }
    done: set[str] = {"vendor/preact.js"}
    while left := [name for name in ways if name not in done]:
        ready = {name for name in left if done.issuperset(ways[name])}
        assert ready, left
        done |= ready


def test_the_module_is_small() -> None:
    """Each view has it."""
    assert len(page_module()) < 200_000
