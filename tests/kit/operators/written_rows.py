"""What is in the files that `write_files` has written."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.csv
import pyarrow.parquet as pq

import tidewheel as tw


def rows_in(folder: str | Path) -> Iterator[Any]:
    """Yield what the files of one epoch have."""
    for file in sorted(Path(folder).iterdir()):
        if file.suffix == ".parquet":
            yield from pq.ParquetFile(file).read().to_pylist()
        elif file.suffix == ".csv":
            yield from pyarrow.csv.read_csv(file).to_pylist()
        else:
            yield from msgspec.json.Decoder().decode_lines(file.read_text())


def numbers_in(written: tw.types.WrittenEpoch) -> list[int]:
    """Return the numbers that were written, and see that the folder has what is said of it."""
    rows = list(rows_in(written.path))
    assert (len(rows), len(list(Path(written.path).iterdir()))) == (written.records, written.files)
    return [row if isinstance(row, int) else row.get("n", row.get("value")) for row in rows]
