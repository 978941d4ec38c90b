"""The lines of a block that do not parse, apart from the others."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that does not parse; several, where a line end may belong to a value.

    Attributes:
        offset: of the text, decompressed, in bytes.
    """

    line: bytes
    offset: int
    error: ValueError


Refuse: TypeAlias = Callable[[BadLine], None]


def parsed_lines(
    block: bytes, offset: int, parse: Callable[[bytes, int], Parsed], refuse: Refuse | None, *, may_cut: bool = True
) -> list[Parsed]:
    r"""Return what ``parse(block, offset)`` makes of a block of lines; of parts of it, if that raises ValueError.

    ``refuse`` receives each line that does not parse alone; None raises the error instead. With n lines of which k are
    bad, O(k log n) parts are parsed. ``may_cut=False`` refuses the block as a whole.

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
    """Return the offset of a line in the middle, 0 if the block has one line only."""
    half = len(block) // 2
    before = block.rfind(b"\n", 0, half) + 1
    return before or (block.find(b"\n", half, len(block) - 1) + 1)
