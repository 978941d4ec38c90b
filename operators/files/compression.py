"""Compressed files of lines; the suffix of the name tells the codec."""

import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".xz": "xz"}
"""The codecs, by suffix."""

_BUFFER_BYTES = 8 << 20


def codec_of(path: str) -> str | None:
    """Return the codec of a file, by its suffix; None if the file is not compressed.

    >>> codec_of("s3://logs/a.csv.gz"), codec_of("a.csv")
    ('gzip', None)
    """
    return CODECS.get(PurePath(path).suffix)


def bare(path: str) -> str:
    """Return a path without the suffix of a compressed file."""
    return path[: -len(PurePath(path).suffix)] if codec_of(path) else path


@contextmanager
def decompressed(file: "pa.NativeFile", path: str) -> "Iterator[pa.NativeFile]":
    """Yield a file, decompressed according to its suffix; an uncompressed file is unchanged, and can seek."""
    import pyarrow as pa

    codec = codec_of(path)
    if codec is None:
        yield file
    elif codec == "xz":
        with lzma.LZMAFile(file) as unpacked, pa.PythonFile(unpacked, "r") as reader:
            yield pa.BufferedInputStream(reader, _BUFFER_BYTES)
    else:
        with pa.CompressedInputStream(pa.BufferedInputStream(file, _BUFFER_BYTES), codec) as reader:
            yield reader
