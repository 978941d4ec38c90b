"""Files as a source whose partitions a test can name."""

from collections.abc import Iterator
from typing import Any

import tidewheel as tw
from tidewheel.storage.stored_files import StoredFile


class ByBaseName(tw.FileSource):
    """Names its partitions as the check of sources knows them: without folder and version."""

    def partitions(self) -> list[str | int]:
        return [self.short(name) for name in super().partitions()]

    def open(self, partition: str | int, position: Any) -> Iterator[tw.Fetched[Any]]:
        [file] = [file for file in self._finder.find() if self.short(file.name) == partition]
        return super().open(file.name, position)

    def resumed(self, partitions: Any) -> None:
        super().resumed([file.name for file in self._finder.find() if self.short(file.name) in partitions])

    def short(self, name: str | int) -> str:
        return StoredFile.named(str(name)).path.rpartition("/")[2]
