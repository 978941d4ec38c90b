"""The pages of the site whose Python blocks are a program, and how they are run."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from tests.kit.docs.pages import blocks, run
from tests.packaging.repository import ROOT

DOCS = ROOT / "docs"
FOLDERS = ("coming-from", "concepts", "how-to")
ON_RAY = (
    "how-to/datasets.md",
    "how-to/exactly-once-database.md",
    "how-to/feeding.md",
    "how-to/nodes.md",
    "how-to/service.md",
)
ON_SERVERS = ("how-to/nats.md", "how-to/postgres.md", "how-to/redis.md")
ON_SPARK = ("how-to/spark.md", "how-to/windows.md")
WITHIN_S = {"local": 120, "ray": 240, "spark": 360}

_SHOWN_ONLY = {"messages", "py", "sh", "shell-session", "sql", ""}
"""Blocks that are not run: drawings, settings of machines, and parts of programs that need a cluster of their own."""


def local_pages() -> list[str]:
    """Return the pages with programs that need neither Ray, Spark nor a server."""
    pages = (page for folder in FOLDERS for page in sorted((DOCS / folder).glob("*.md")))
    found = [DOCS / "index.md", DOCS / "collections.md", *pages]
    names = [page.relative_to(DOCS).as_posix() for page in found if "```python\n" in page.read_text(encoding="utf-8")]
    return [name for name in names if name not in ON_RAY + ON_SPARK + ON_SERVERS]


def run_page(name: str, folder: Path, kind: str, cluster: str | None = None, leave_out: str | None = None) -> None:
    """Run the Python blocks of a page as one program, and compare what it prints with what the page shows.

    Blocks with ``leave_out`` in them are not run, and what the page shows of these is not looked at.
    """
    page = folder / Path(name).name
    page.write_text("\n".join(_kept((DOCS / name).read_text(encoding="utf-8"), leave_out)), encoding="utf-8")
    (folder / "work").mkdir()
    run(page, folder / "work", ROOT, limit_s=WITHIN_S[kind], cluster=cluster)


def _kept(text: str, leave_out: str | None) -> Iterator[str]:
    """Yield the lines of a page, with empty ones for the blocks that are only shown, so that line numbers stay."""
    lines = text.splitlines()
    found = blocks(text)
    shown = [block for block in found if block.kind.split(" ")[0] in _SHOWN_ONLY]
    for block, after in pairwise(found):
        if leave_out is not None and leave_out in "\n".join(block.lines):
            shown += [block, after] if after.kind == "text" else [block]
    hidden = {number for block in shown for number in range(block.line - 1, block.line + len(block.lines) + 1)}
    yield from ("" if number in hidden else line for number, line in enumerate(lines, start=1))
