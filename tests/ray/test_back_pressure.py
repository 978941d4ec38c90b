"""Back-pressure between processes: a source that is faster than the dataflow holds the memory of every process flat."""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil
import pytest

import tidewheel as tw
from tests.slow_operator import build_slow
from tests.waiting import eventually
from tidewheel.runtime.engines.ray_job import RayJob
from tidewheel.transport.link import LinkName

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

MIB = 1 << 20


def rounds(arrays: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
    """Send each array round the loop as often as its first number says, by way of the other worker each time."""
    slow = arrays.exchange(lambda row: int(row[0])).unary(build_slow, name="slow")
    going_on = slow.map_batches(lambda batch: batch[batch[:, 0] > 0] - np.array([1]))
    return going_on, slow.map_batches(lambda batch: batch[batch[:, 0] <= 0][:, :1])


@pytest.mark.parametrize("link", ["socket", pytest.param("ray", marks=pytest.mark.long)])
def test_a_gigabyte_through_a_loop(link: LinkName) -> None:
    """Nothing is lost, and no process grows by more than a fraction of what passed."""
    flow = tw.Dataflow("gigabyte")
    counts = flow.input("arrays").iterate(rounds).map_batches(lambda batch: np.array([len(batch)]))
    counts.capture("counts").probe("done")
    job = tw.run(flow, workers=2, config=tw.RuntimeConfig(link=link, bytes_in_flight=32 * MIB))
    assert isinstance(job, RayJob)
    with job:
        processes = [psutil.Process(pid) for pid in (*job.pids, psutil.Process().pid)]
        before = [process.memory_info().rss for process in processes]
        most = [0] * len(processes)
        for number in range(512):
            job.input("arrays").send(np.full((1, MIB // 4), number % 3, dtype=np.int64))
            if number % 8 == 0:
                grown = [process.memory_info().rss - start for process, start in zip(processes, before, strict=True)]
                most = list(map(max, most, grown))
        sent = job.statistics().inputs["arrays"]
        assert sent.bytes == 1 << 30
        assert sent.seconds_waited > 0
        job.input("arrays").close()
        job.wait(timeout_s=120)
        assert sum(int(n) for entry in job.captured("counts") for n in entry.batch) == 512
        assert all(growth < 400 * MIB for growth in most), f"grew by {[growth // MIB for growth in most]} MiB"


def test_an_input_need_not_wait() -> None:
    """While an operator is at work on what came before, `timeout_s=0` says that there is no room; later there is."""
    flow = tw.Dataflow("impatient")
    flow.input("arrays").unary(build_slow, name="slow").probe("done").capture("arrays")
    with tw.run(flow, workers=1, config=tw.RuntimeConfig(bytes_in_flight=8 * MIB)) as job:
        array = np.zeros((1, 4 * MIB // 8))
        refused = 0

        def sent() -> bool:
            nonlocal refused
            try:
                job.input("arrays").send(array, timeout_s=0)
            except tw.errors.WouldBlock:
                refused += 1
                return False
            return True

        for _ in range(20):
            assert eventually(sent)
        job.input("arrays").close()
        job.wait(timeout_s=60)
        assert sum(len(entry.batch) for entry in job.captured("arrays")) == 20
        assert refused > 0


def digest(record: Any) -> str:
    """Work for some milliseconds."""
    image = record if isinstance(record, bytes) else record["image"]
    return ",".join(hashlib.sha512(image).hexdigest() for _ in range(4))


RECORDS: dict[str, Callable[[int], list[Any]]] = {
    "bytes": lambda number: [bytes([number % 256]) * MIB],
    "dicts": lambda number: [{"number": number, "image": bytes([number % 256]) * MIB}],
    "one large of fifty": lambda number: [
        {"number": number, "image": bytes([number % 256]) * (MIB if at == 30 else 1)} for at in range(50)
    ],
}


@pytest.mark.parametrize(
    ("kind", "exchanged"),
    [
        ("dicts", False),
        ("one large of fifty", True),
        *(
            pytest.param(kind, exchanged, marks=pytest.mark.long)
            for kind, exchanged in [
                ("bytes", False),
                ("one large of fifty", False),
                ("bytes", True),
                ("dicts", True),
            ]
        ),
    ],
)
def test_records_hold_back_the_driver_by_what_they_hold(kind: str, exchanged: bool) -> None:
    """Dicts with a large value keep memory as flat as plain bytes do, behind an operator slower than the driver.

    That is so on the worker that receives them, and on one to which they go from there.
    """
    flow = tw.Dataflow("digests")
    records = flow.input("records")
    if exchanged:
        records = records.exchange(lambda record: 0)
    records.map(digest).map_batches(lambda batch: [len(batch)]).probe("done").capture("counts")
    job = tw.run(flow, workers=2 if exchanged else 1, config=tw.RuntimeConfig(bytes_in_flight=16 * MIB))
    assert isinstance(job, RayJob)
    with job:
        processes = [psutil.Process(pid) for pid in job.pids]
        before = [process.memory_info().rss for process in processes]
        most = [0] * len(processes)
        for number in range(300):
            job.input("records").send(RECORDS[kind](number))
            grown = [process.memory_info().rss - start for process, start in zip(processes, before, strict=True)]
            most = list(map(max, most, grown))
        assert job.statistics().inputs["records"].seconds_waited > 0
        job.input("records").close()
        job.wait(timeout_s=120)
        assert sum(n for entry in job.captured("counts") for n in entry.batch) == 300 * len(RECORDS[kind](0))
    assert all(growth < 130 * MIB for growth in most), f"grew by {[growth // MIB for growth in most]} MiB"
