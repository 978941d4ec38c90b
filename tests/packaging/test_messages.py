"""The file with the messages of errors has no test that is gone."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.kit.messages import BOOK, MessageBook

ROOT = Path(__file__).parents[2]


def test_each_message_is_of_a_test_that_exists() -> None:
    """After a test is renamed or removed, its messages go from the file."""
    gone = [test for test in BOOK.tests() if test.partition("::")[2].partition("[")[0] not in _tests(test)]
    assert not gone, f"remove these from tests/messages.txt: {gone}"


def test_other_words_are_refused(tmp_path: Path) -> None:
    """So are further messages. A message that comes again is told once."""
    test = "tests/test_a.py::test_b"
    book = MessageBook(tmp_path / "messages.txt")
    book.is_written = True
    for _ in range(2):
        book.meet(test, "JobError: it broke")
    book.save()
    compared = MessageBook(tmp_path / "messages.txt")
    for _ in range(2):
        compared.meet(test, "JobError: it broke")
    with pytest.raises(AssertionError, match=f"--write-messages '{test}'"):
        compared.meet(test, "GraphError: no")
    with pytest.raises(AssertionError, match=f"--write-messages '{test}'"):
        MessageBook(tmp_path / "messages.txt").meet(test, "JobError: it has broken")


def _tests(test: str) -> set[str]:
    return _names(ROOT / test.partition("::")[0])


@cache
def _names(path: Path) -> set[str]:
    if not path.exists():
        return set()
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
    return found
