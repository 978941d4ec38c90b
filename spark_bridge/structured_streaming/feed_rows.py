"""The rows of one micro-batch as an Arrow table in this process.

Of a Spark that runs on Ray they come out of Ray's object store, where the executors put them; of another one, through
its driver. Nothing is left of them in Spark or in the store when the table is there.
"""

from typing import TYPE_CHECKING

from tidewheel.spark_bridge.arrow_blocks import arrow_schema, store_blocks
from tidewheel.spark_bridge.driver_transport import collected, is_on_ray
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.java_errors import computing

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def rows_of(df: "DataFrame", name: str) -> "pa.Table":
    """Compute a DataFrame, and return its rows in the order of its partitions.

    Raises:
        BridgeError: its types have no Arrow form, it cannot be computed, or a partition got lost; ``name`` says which
            DataFrame.
    """
    if not is_on_ray(df.sparkSession):
        schema = arrow_schema(df, name)
        with computing(name):
            return collected(df, schema)
    import pyarrow as pa
    import ray

    blocks = store_blocks(df, name)
    try:
        streams = ray.get(list(blocks.references))
    except ray.exceptions.RayError as error:
        raise BridgeError(f"a partition of {name!r} cannot be read from Ray's object store: {error}") from error
    tables = [pa.ipc.open_stream(pa.py_buffer(stream)).read_all().replace_schema_metadata() for stream in streams]
    return pa.concat_tables([blocks.schema.empty_table(), *tables])
