"""Writes docs/reference/command-line.md: what `tidewheel --help` says of each command. Run by `make docs`."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from tidewheel.__main__ import _parser

PAGE = Path(__file__).with_name("reference") / "command-line.md"

_TITLE = """\
# Command line

The command `tidewheel` works on the topics and jobs of a Ray cluster. `--address` or `RAY_ADDRESS` names the cluster.
Without them, the commands use the one that `ray start` has started on this machine, else the only one that runs there.
The exit code is 0, 1 after an error, 130 after Ctrl-C, and 143 after SIGTERM. SIGTERM ends `serve` with 0. A wrong
command line, such as a `--where` that is no [condition](../gateway.md#conditions), ends with 2.

Written by `make docs` from the help of the commands.
"""


def page() -> str:
    """Return the whole page."""
    with patch.dict(os.environ, {"COLUMNS": "100"}):
        return "\n".join([_TITLE, *_sections()])


def _sections() -> Iterator[str]:
    for action in _parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield f"## tidewheel {name}\n\n```\n{command.format_help().strip()}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
