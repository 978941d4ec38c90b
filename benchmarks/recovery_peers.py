"""The keyed count of `recovery.py` in another system, in processes that run until they are killed.

``python recovery_peers.py bytewax KEYS KEPT MARKS FOLDER ARGUMENT...`` counts records of so many keys, and writes
marks to a folder. If KEPT is 1, each key keeps a text of 64 bytes beside its count. FOLDER is that of the snapshots,
which are taken every second, and from which it goes on if there are any; "" takes none. Bytewax is told the number of
the process and the addresses of all.
"""

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from recovery_marks import Marks

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


PEERS: dict[str, Callable[..., None]] = {"bytewax": bytewax}


if __name__ == "__main__":
    main()
