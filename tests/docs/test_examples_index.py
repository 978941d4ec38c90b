"""docs/examples.md lists the programs of examples/, and only those."""

import re

from tests.packaging.repository import ROOT

PAGE = ROOT / "docs" / "examples.md"
EXAMPLES = ROOT / "examples"


def test_every_program_is_listed_once() -> None:
    """A program is a file that can be run; the others are parts of programs."""
    programs = [path.name for path in sorted(EXAMPLES.glob("*.py")) if '__name__ == "__main__"' in path.read_text()]
    listed = re.findall(r"^\| `(\w+\.py)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == programs


def test_every_other_name_is_that_of_a_file() -> None:
    """The page also names parts of programs, and the whole site names examples."""
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    named = set(re.findall(r"(?<![\w/])examples/(\w+\.py)", text))
    named |= set(re.findall(r"`(\w+\.py)`", PAGE.read_text(encoding="utf-8")))
    assert {name for name in named if not (EXAMPLES / name).is_file()} == set()
    assert len(named) > 14
