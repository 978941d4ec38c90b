"""The separation of lines that cannot be parsed from the other lines of a block."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that cannot be parsed, or several lines if a value may contain line ends.

    Attributes:
        offset: its offset in the decompressed text, in bytes.
    """

    line: bytes
    offset: int
    error: ValueError


Refuse: TypeAlias = Callable[[BadLine], None]


def parsed_lines(
    block: bytes, offset: int, parse: Callable[[bytes, int], Parsed], refuse: Refuse | None, *, may_cut: bool = True
) -> list[Parsed]:
    r"""Return the results of ``parse(block, offset)`` for a block of lines, or for parts of it.

    If ``parse`` raises ValueError, the block is cut into parts, down to single lines; ``refuse`` receives the lines
    that still fail. With ``refuse=None`` the error is raised. With k bad lines of n, this parses O(k log n) parts.
    ``may_cut=False`` refuses the block as a whole.

    >>> bad = []
    >>> parsed_lines(b"1\n2\nx\n4\n", 100, lambda lines, _: [int(line) for line in lines.split()], bad.append)
    [[1, 2], [4]]
    >>> [(one.line, one.offset) for one in bad]
    [(b'x', 104)]
    """
    try:
        return [parse(block, offset)]
    except ValueError as error:
        if refuse is None:
            raise
        cut = _middle(block) if may_cut else 0
        if not cut:
            refuse(BadLine(block.removesuffix(b"\n").removesuffix(b"\r"), offset, error))
            return []
    first = parsed_lines(block[:cut], offset, parse, refuse)
    return first + parsed_lines(block[cut:], offset + cut, parse, refuse)


def _middle(block: bytes) -> int:
    """Return the offset of a line near the middle; 0 if the block has one line only."""
    half = len(block) // 2
    before = block.rfind(b"\n", 0, half) + 1
    return before or (block.find(b"\n", half, len(block) - 1) + 1)
