"""An output stream that names the operator that writes to it."""

import io
from collections.abc import Callable
from typing import TextIO


class LabelledOutput(io.TextIOBase):
    """A stream that puts a label before each line.

    Args:
        label: returns the label for a new line, empty for none; thread-safe.
    """

    def __init__(self, stream: TextIO, label: Callable[[], str]) -> None:
        self._stream = stream
        self._label = label
        self._at_start = True

    def write(self, text: str) -> int:
        label = self._label() if text else ""
        if label:
            lines = text.splitlines(keepends=True)
            labelled = "".join(label + line for line in lines[1:])
            self._stream.write((label if self._at_start else "") + lines[0] + labelled)
        else:
            self._stream.write(text)
        if text:
            self._at_start = text.endswith("\n")
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding
