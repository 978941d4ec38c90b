"""Results of a dataflow as a Ray Dataset."""

from typing import TYPE_CHECKING, Any

from tidewheel.connectors.datasets.errors import DatasetError
from tidewheel.host.extras import check_extra
from tidewheel.host.ray_cluster import connect
from tidewheel.runtime.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from ray.data import Dataset


def to_dataset(source: Any, *, schema: "pa.Schema | None" = None, time: str | None = "time") -> "Dataset":
    """Read ``source`` to its end and return its rows as a Ray Dataset; needs the extra ``data``.

    Each worker of a running Ray job makes blocks of ``job.captured(name)`` on its node; rows of other sources pass this
    process. This process owns the blocks, so they outlive the job, and are freed with the dataset. Ray Data looks at
    each block in a task, which needs a CPU of the cluster.

    Args:
        source: an iterable of messages with ``.time`` and ``.batch``, such as ``job.captured(name)``; or a
            subscription, read until its topic ends, or any object whose ``epochs()`` yields epochs with ``.time`` and
            ``.batches``. A batch is an Arrow table or record batch, or a list of dicts.
        schema: the schema of the rows. You need it if the first list of dicts does not show all types, or there may be
            no batch.
        time: the name of an added last column with the time of each row, a 64-bit integer; None adds no column.

    Raises:
        DatasetError: batches differ in schema; there is neither a batch nor a ``schema``; a column has the name given
            as ``time``; a time is not a 64-bit integer; a worker makes no block for two minutes; or the cluster has no
            CPU.
    """
    check_extra("data", "to_dataset()", DatasetError)
    connect(JobError)
    import ray
    import ray.data

    from tidewheel.connectors.object_blocks.record_tables import RecordTables, TableReader
    from tidewheel.connectors.object_blocks.stored_blocks import known_columns, put_block, stored_blocks

    if not ray.cluster_resources().get("CPU"):
        raise DatasetError(
            "to_dataset: Ray Data looks at blocks in tasks, which need a CPU, and no node of the cluster has one. "
            "Start Ray with some, ray.init(num_cpus=...), or add a node"
        )
    rows = RecordTables(TableReader("Ray Data", "Dataset", "to_dataset", DatasetError, _columns), schema, time)
    blocks = stored_blocks(source, rows, _table)
    columns = known_columns(rows)
    blocks = blocks or [put_block([columns.empty_table()], _table)]
    references: list[Any] = [block.reference for block in blocks]
    return ray.data.from_arrow_refs(references)


def _columns(schema: "pa.Schema", where: str) -> "pa.Schema":
    """Return a schema without metadata; Ray Data can read all types."""
    if len(set(schema.names)) < len(schema.names):
        raise DatasetError(f"{where} has several columns of one name ({', '.join(schema.names)}): rename them")
    return schema.remove_metadata()


def _table(tables: "Sequence[pa.Table]") -> "pa.Table":
    import pyarrow as pa

    return pa.concat_tables(tables)
