"""The two operators of write_files: one writes each worker's part of an epoch, the other makes the whole epoch visible.

The first sends word of its files when its share of the epoch is on disk, and so holds the epoch open until then. The
second, on worker 0, has that word from all workers when the epoch is complete at its input.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tidewheel.operators.sinks.epoch_folders import EpochFolders, WrittenEpoch
from tidewheel.operators.sinks.file_formats import FileFormat
from tidewheel.progress import Time
from tidewheel.runtime import Build, InputPort, OperatorContext, OutputPort, Schedule, TimestampToken
from tidewheel.transport.batches import Batch, length, size_in_bytes


@dataclass(slots=True)
class _Part:
    """One worker's part of an epoch: what is written, and what has yet to be."""

    files: int = 0
    records: int = 0
    waiting: list[Batch] = field(default_factory=list)
    waiting_bytes: int = 0

    def add(self, batch: Batch) -> None:
        self.records += length(batch)
        self.waiting.append(batch)
        self.waiting_bytes += size_in_bytes(batch)


def build_write_parts(folders: EpochFolders, file_format: FileFormat, file_bytes: int) -> Build:
    """Return the build function of an operator that sends, for each epoch, how many (files, records) it has written."""

    def build(context: OperatorContext) -> Schedule:
        parts: dict[Time, _Part] = context.state("parts", partial(_begin, folders, context.worker))
        notificator = context.notificator()

        def write(time: Time, part: _Part) -> None:
            path = folders.begin(time) / f"part-{context.worker:05d}-{part.files:05d}.{file_format.suffix}"
            file_format.write_durably(path, part.waiting)
            part.files += 1
            part.waiting, part.waiting_bytes = [], 0

        def schedule(input: InputPort, output: OutputPort) -> None:
            for lent, batch in input:
                time = lent.time
                if time not in parts:
                    folders.begin(time)
                    parts[time] = _Part()
                    notificator.notify_at(lent)
                parts[time].add(batch)
                if parts[time].waiting_bytes >= file_bytes:
                    write(time, parts[time])
            for token in notificator.ready(input):
                part = parts.pop(token.time)
                if part.waiting:
                    write(token.time, part)
                output.send(token, [(part.files, part.records)])

        return schedule

    return build


def _begin(folders: EpochFolders, worker: int) -> dict[Time, _Part]:
    """Clean up, before any worker writes, since all are built before any runs; return what is written so far."""
    if worker == 0:
        folders.recover()
    return {}


@dataclass(frozen=True, slots=True)
class EpochCommit:
    """Makes epochs visible of which all parts are written."""

    folders: EpochFolders

    def process(self, kept: object, batches: list[list[Batch]], token: TimestampToken) -> Sequence[list[Batch]]:
        """Return what was made visible."""
        parts: list[tuple[int, int]] = [part for batch in batches[0] for part in batch]
        path = self.folders.commit(token.time)
        files, records = (sum(counts) for counts in zip(*parts, strict=True))
        made: Any = WrittenEpoch(token.time, str(path), files, records)
        return [[[made]]]
