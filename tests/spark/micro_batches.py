"""Files that Structured Streaming reads in order, one to a micro-batch."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BEGIN_S = 1_600_000_000


def add_file(folder: Path, number: int, values: Sequence[int]) -> None:
    """Add a file that is read after those of lower numbers, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{number}"
    pq.write_table(pa.table({"n": pa.array(values, pa.int64())}), hidden)
    os.utime(hidden, (_BEGIN_S + number, _BEGIN_S + number))
    hidden.rename(folder / f"{number:05d}.parquet")


def reading(spark: "SparkSession", folder: Path) -> "DataFrame":
    """Return a streaming DataFrame of the files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    stream = spark.readStream.schema("n long").option("maxFilesPerTrigger", 1)
    return stream.parquet(str(folder))
