"""The programs that examples/README.md lists: how to run each, and a line that it prints."""

import re
from pathlib import Path
from typing import NamedTuple

from tests.packaging.repository import ROOT

EXAMPLES = ROOT / "examples"
INDEX = EXAMPLES / "README.md"


class Program(NamedTuple):
    """One row of the index.

    Attributes:
        file: its path from the root of the project.
        command: what a user types there.
        prints: a line of its output, with "…" for what differs from run to run.
    """

    file: Path
    command: str
    prints: str

    @property
    def name(self) -> str:
        """The name of its module, without the folder."""
        return self.file.stem

    @property
    def subject(self) -> str:
        """Its folder."""
        return self.file.parent.name

    def has_printed(self, output: str) -> bool:
        """Whether the line is in an output; runs of spaces count as one."""
        pattern = ".*".join(re.escape(part) for part in " ".join(self.prints.split()).split("…"))
        return any(re.search(pattern, " ".join(line.split())) for line in output.splitlines())


def programs() -> dict[str, Program]:
    """Return all rows of the index by name, in order."""
    row = re.compile(r"^\| \[`[\w.]+`\]\(([\w/]+\.py)\) \| .* \| `([^`]+)`[^|]* \| `([^`]+)` \|$", re.MULTILINE)
    found = (Program(Path("examples", file), *rest) for file, *rest in row.findall(INDEX.read_text(encoding="utf-8")))
    return {program.name: program for program in found}
