"""A driver of Spark on a cluster of two nodes, each with room for one executor, and of jobs with a worker on each.

It says one thing after another that it sees; the test has it run in a process of its own.
"""

import tempfile
from typing import Any

import tidewheel as tw
from tests.ray.test_nodes import say
from tests.spark.conftest import FAST_START
from tests.spark.sources import KeepsSource
from tests.waiting import eventually
from tidewheel.runtime.description.plan import Schedule
from tidewheel.spark_bridge import from_spark, session
from tidewheel.spark_bridge.dataframe_source import DataFrameSource

BLOCKS = 12
ROWS_PER_BLOCK = 40_000
"""Enough for a block to be in an object store, as Ray does not say where smaller ones are."""


def places(source: DataFrameSource) -> tuple[list[str], dict[int, int]]:
    """Return the node where each block is stored, or else now by its executor; and the numbers by the first rows."""
    import pyarrow as pa
    import ray

    blocks: Any = source.blocks
    fetched = [blocks.request(number) for number in range(len(blocks))]
    blocks.is_read = False  # by a job

    def located() -> list[str]:
        found = ray.experimental.get_object_locations(fetched)
        return [node for block in fetched for node in found[block]["node_ids"][:1]]

    ray.wait(fetched, num_returns=len(fetched), timeout=60, fetch_local=False)
    assert eventually(lambda: len(located()) == len(fetched)), "Ray hears of an object sooner than of where it is"
    nodes = located()
    tables = [pa.ipc.open_stream(stream).read_all() for stream in ray.get(fetched)]
    return nodes, {table["id"][0].as_py(): number for number, table in enumerate(tables)}


def readers(
    source: DataFrameSource, numbers: dict[int, int], snapshots: tw.Snapshots | None = None
) -> list[tuple[str, list[int]]]:
    """Return the node of each worker of a job, and which blocks it has read, known by their first rows."""

    def build(context: tw.OperatorContext) -> Schedule:
        import ray

        node, worker = ray.get_runtime_context().get_node_id(), context.worker

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for token, batch in input:
                output.send(token, [(worker, node, batch["id"][0].as_py())])

        return schedule

    flow = tw.Dataflow("near")
    flow.source("rows", source).unary(build, name="read").capture("read")
    with tw.run(flow, workers=2, snapshots=snapshots) as job:
        job.wait(timeout_s=120)
        seen = sorted(record for entry in job.captured("read") for record in entry.batch)
    nodes = {worker: node for worker, node, _ in seen}
    return [
        (nodes[number], sorted(numbers[row] for worker, _, row in seen if worker == number and row in numbers))
        for number in sorted(nodes)
    ]


def made(spark: Any, name: str, time: str | None = None) -> DataFrameSource:
    rows = spark.range(BLOCKS * ROWS_PER_BLOCK, numPartitions=BLOCKS)
    rows = rows.selectExpr("id", f"cast(id div {ROWS_PER_BLOCK} as int) as epoch")
    return from_spark(KeepsSource(), name, rows, time=time, partitions=BLOCKS if time else None)


def drive() -> None:
    """Say, for each way to read a DataFrame, the nodes of its blocks, what the source knows of them, and who read."""
    configs = {**FAST_START, "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
    with session("near", executors=2, memory="512m", configs=configs) as spark, tempfile.TemporaryDirectory() as folder:
        say("started")
        for name, time in (("at once", None), ("in epochs", "epoch")):
            source = made(spark, name, time)
            known = list(source.blocks.places)
            where, numbers = places(source)
            say([name, {"places": where, "known": known, "read": readers(source, numbers)}])
        source = made(spark, "in snapshots")
        where, numbers = places(source)
        say(["in snapshots", {"places": where, "read": readers(source, numbers, tw.Snapshots(folder))}])
        left = made(spark, "stored")
    where, numbers = places(left)
    say(["stored", {"places": where, "known": list(left.blocks.places), "read": readers(left, numbers)}])
