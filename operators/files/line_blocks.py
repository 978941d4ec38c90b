"""Files of lines, read in blocks of whole lines.

A block depends only on the file and the offset at which it begins. So a reader that continues from the end of a block
gets the same blocks as a reader of the whole file. Offsets count the bytes of the decompressed text.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES = 1 << 20
_MOST_BYTES = 256 << 20
_SKIPPED_BYTES = 8 << 20


def line_blocks(
    file: "pa.NativeFile", start: int = 0, quote: bytes = b"", size: int = BLOCK_BYTES
) -> Iterator[tuple[bytes, int]]:
    r"""Yield blocks of whole lines from an offset on, each with the offset of its end.

    Args:
        file: open at its beginning.
        start: the offset; if the file cannot seek, the bytes before it are read and dropped.
        quote: the quote character; a line end inside quotes is part of a value.
        size: the size of a block in bytes; a block with a longer line is larger.

    >>> import pyarrow as pa
    >>> list(line_blocks(pa.BufferReader(b"a\nbb\nccc"), 0, size=5))
    [(b'a\nbb\n', 5), (b'ccc', 8)]
    >>> list(line_blocks(pa.BufferReader(b'"a\nb",1\n2,3\n'), 0, b'"', size=4))
    [(b'"a\nb",1\n', 8), (b'2,3\n', 12)]

    Raises:
        ValueError: the file has no line end within a great many bytes.
    """
    _skip(file, start)
    rest = b""
    wanted = size
    while True:
        read = file.read(wanted - len(rest))
        block = rest + read if rest else read
        if not block:
            return
        if len(block) < wanted and read:  # some files return less than there is
            rest = block
            continue
        cut = len(block) if len(block) < wanted else _last_end(block, quote)
        if not cut:
            wanted *= 2
            rest = block
            if wanted > _MOST_BYTES:
                raise ValueError(
                    f"there is no end of a line in the {len(block)} bytes from offset {start} on: see whether the file "
                    "has lines, and in CSV whether a quote is never closed"
                )
            continue
        start += cut
        yield block[:cut], start
        rest = block[cut:]
        wanted = size
        while wanted <= len(rest):
            wanted *= 2


def _last_end(block: bytes, quote: bytes) -> int:
    """Return the offset after the last line end that is outside of quotes; 0 if there is none."""
    if not quote or quote not in block:
        return block.rfind(b"\n") + 1
    cut = len(block)
    open_quotes = block.count(quote)
    while (end := block.rfind(b"\n", 0, cut)) >= 0:
        open_quotes -= block.count(quote, end, cut)
        if open_quotes % 2 == 0:
            return end + 1
        cut = end
    return 0


def _skip(file: "pa.NativeFile", start: int) -> None:
    if file.seekable():
        file.seek(start)
        return
    while start and (dropped := file.read(min(start, _SKIPPED_BYTES))):
        start -= len(dropped)
