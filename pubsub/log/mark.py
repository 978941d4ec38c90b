"""The mark of a log: how much of it is durable, written beside it after each sync.

The mark is not synced itself, so it costs a microsecond. After the loss of power it may be an older one; it never says
that something is durable that is not. A process that is killed leaves the last one.
"""

import logging
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from tidewheel.pubsub.log.files import Files, write_all

_LOG = logging.getLogger(__name__)
_MARK = struct.Struct("<QQ")
_CHECKSUM = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Mark:
    """In the segment of this number so many bytes are durable, and everything in those before it."""

    segment: int
    size: int


class MarkFile:
    """The file that the mark is in; made if it is missing."""

    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._warned = False

    def read(self) -> Mark | None:
        """Return the mark; None, and warn, if it is damaged. There is none in an empty file, without a warning."""
        data = os.pread(self._descriptor, _MARK.size + _CHECKSUM.size + 1, 0)
        if not data:
            return None
        content = data[: _MARK.size]
        if data[_MARK.size :] != _CHECKSUM.pack(crc32c(content)):
            _LOG.warning(
                "%s is damaged: the log is recovered without, but damage to what was logged last would be taken for a "
                "write that was never finished",
                self._path,
            )
            return None
        return Mark(*_MARK.unpack(content))

    def write(self, mark: Mark) -> None:
        """Put another mark in place of the one that is there; warn, once, if that is not possible."""
        content = _MARK.pack(mark.segment, mark.size)
        try:
            write_all(self._files, self._descriptor, [content + _CHECKSUM.pack(crc32c(content))], 0)
        except OSError as error:
            if not self._warned:
                _LOG.warning("%s cannot be written (%s): the log goes on without", self._path, error)
            self._warned = True

    def close(self) -> None:
        """Make the mark durable, for the case that nobody writes the log for long; and close the file."""
        try:
            self._files.sync(self._descriptor)
        except OSError as error:
            _LOG.warning("%s cannot be made durable (%s)", self._path, error)
        finally:
            os.close(self._descriptor)
