"""The README: its blocks run as they are pasted, it is a page, and what it names is there."""

import re
from pathlib import Path

import pytest

from tests.kit.docs.pages import blocks, run, unfenced
from tests.packaging.repository import ROOT

README = ROOT / "README.md"
TEXT = README.read_text("utf-8")
MOST_LINES = 150
LONGEST_PROGRAM = 20


@pytest.mark.spark
def test_its_blocks_run_and_print_what_is_shown(tmp_path: Path) -> None:
    """In order, in one session, with a Ray of its own, from a loop in one process to Spark and a second terminal."""
    run(README, tmp_path, ROOT, limit_s=480)


def test_it_is_a_page() -> None:
    """Somebody who knows Ray and PySpark reads it in some minutes."""
    assert len(TEXT.splitlines()) <= MOST_LINES


def test_its_programs_are_three_and_short() -> None:
    """A loop, Spark in and out, and a live subscription, of at most 20 lines each."""
    programs = [[line for line in block.lines if line.strip()] for block in blocks(TEXT) if block.kind == "python"]
    assert len(programs) == 3
    assert [len(program) for program in programs if len(program) > LONGEST_PROGRAM] == []


def test_its_commands_exist() -> None:
    """Every target of make and every benchmark that it names is there."""
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    named = re.findall(r"`make (\w+)", TEXT)
    assert {"demo", "test"} <= set(named) <= set(targets)
    benchmarks = re.findall(r"`python -m (benchmarks\.[\w.]+)`", TEXT)
    assert benchmarks
    assert [name for name in benchmarks if not (ROOT / name.replace(".", "/")).with_suffix(".py").is_file()] == []


def test_each_figure_has_its_command() -> None:
    """The last cell of each row of the table of speed is the program that measures it."""
    [section] = re.findall(r"^## Speed\n(.*?)^## ", TEXT, re.MULTILINE | re.DOTALL)
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert rows
    assert [row for row in rows if not re.search(r"\| `python -m benchmarks\.[\w.]+` \|$", row)] == []


def test_every_block_is_fenced() -> None:
    """A block that is only indented is not run, so there is none."""
    assert [line for _, line in unfenced(TEXT) if line.startswith("    ")] == []
