"""The page that follows a record names files that exist."""

import re

from tests.packaging.repository import ROOT

PAGE = ROOT / "docs" / "path-of-a-record.md"
MOST_FILES = 25
"""The largest number of files that a record may pass; the page gets shorter with the path."""


def test_the_files_on_the_path_of_a_record_exist() -> None:
    """Each row of a table names one module of the product, and no module twice."""
    named = re.findall(r"^\| `([\w/]+\.py)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name in named if not (ROOT / name).is_file()] == []
    assert len(named) == len(set(named))
    assert 20 < len(named) <= MOST_FILES
