"""The mark of a log: the size of its durable part, written to a file beside it after each sync.

The log does not sync the mark, so it costs a microsecond. After a loss of power the mark may be an older one, but it
never counts bytes that are not durable. A killed process leaves the latest mark.
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
    """The number of a segment and the size of its durable part; all earlier segments are durable."""

    segment: int
    size: int


class MarkFile:
    """The file of the mark, made if it is missing."""

    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._warned = False

    def read(self) -> Mark | None:
        """Return the mark; None for an empty file; None with a warning for a damaged one."""
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
        """Replace the mark; warn once if that fails."""
        content = _MARK.pack(mark.segment, mark.size)
        try:
            write_all(self._files, self._descriptor, [content + _CHECKSUM.pack(crc32c(content))], 0)
        except OSError as error:
            if not self._warned:
                _LOG.warning("%s cannot be written (%s): the log goes on without", self._path, error)
            self._warned = True

    def close(self) -> None:
        """Make the mark durable, as the log may not be written for long, and close the file."""
        try:
            self._files.sync(self._descriptor)
        except OSError as error:
            _LOG.warning("%s cannot be made durable (%s)", self._path, error)
        finally:
            os.close(self._descriptor)
