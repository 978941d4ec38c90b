"""Writes docs/examples.md: the index of the examples, for the site. Run by `make docs`.

The index is `examples/README.md`. Its links to `docs/` become links between pages of the site. Of its links to files
of `examples/`, which the site does not have, the text stays.
"""

import re
from pathlib import Path

PAGE = Path(__file__).with_name("examples.md")
INDEX = Path(__file__).resolve().parents[1] / "examples" / "README.md"

_TITLE = """\
# Examples

Written by `make docs` from `examples/README.md`.
"""


def page() -> str:
    """Return the whole page."""
    _, text = INDEX.read_text(encoding="utf-8").split("# Examples\n")
    without_files = re.sub(r"\[([^\]]+)\]\((?!\.\./)[^)]+\)", r"\1", text)
    return _TITLE + without_files.replace("](../docs/", "](")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
