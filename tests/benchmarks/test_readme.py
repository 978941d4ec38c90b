"""The table of figures in README.md is that of `python -m benchmarks.readme`."""

import re

import pytest

from benchmarks.readme import HEAD, LINES, README, written
from tests.benchmarks.quick_run import quick_run


def test_the_readme_has_a_line_for_each_figure() -> None:
    """With the benchmark that has all of it, and at least one figure of another."""
    table = README.read_text("utf-8").partition(HEAD)[2].partition("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert [(what, command) for what, _, _, command in cells] == [
        (line.what, f"`python -m {line.module}`") for line in LINES
    ]
    assert [what for what, ours, others, _ in cells if not re.search(r"\d", ours) or not re.search(r"\d", others)] == []


def test_a_table_takes_the_place_of_the_last_one() -> None:
    """The text around it stays; a text without such a table is refused."""
    text = f"# A\n\n{HEAD}| old | 1 s | 2 s | `c` |\n\nafter\n"
    assert written(text, {"new": "| new | 3 s | 4 s | `c` |"}) == f"# A\n\n{HEAD}| new | 3 s | 4 s | `c` |\n\nafter\n"
    with pytest.raises(ValueError, match=r"README\.md has no table of figures"):
        written("# A\n", {})


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.spark
def test_each_line_finds_its_figure_of_tidewheel() -> None:
    """The rows have the names that the table looks for, but for the number of Spark's rows."""
    rows = quick_run("readme", RAY_ADDRESS="")["rows"]
    names = [begin.replace("10,000,000", "200,000") for line in LINES for _, begin in line.ours]
    assert [name for name in names if not any(row.startswith(name) for row in rows)] == []
