"""The docstrings of the reference, prepared for Markdown: examples that begin with ``>>>`` become blocks of code."""

from collections.abc import Iterator
from typing import Any

import griffe


class DocstringExamples(griffe.Extension):
    """Changes each docstring as it is read; mkdocs.yml names this class."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put the examples of one object's docstring into blocks."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(docstring: str) -> str:
    """Return a docstring whose examples, up to the next empty line each, are blocks of code."""
    return "\n".join(_fenced_lines(docstring.splitlines()))


def _fenced_lines(lines: list[str]) -> Iterator[str]:
    indent: str | None = None
    for line in lines:
        if indent is None and line.lstrip().startswith(">>> "):
            indent = line[: len(line) - len(line.lstrip())]
            yield f"{indent}```pycon"
        elif indent is not None and not line.strip():
            yield f"{indent}```"
            indent = None
        yield line
    if indent is not None:
        yield f"{indent}```"
