"""The check of sources passes those that keep the contract, and refuses others with a message that says why."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators import broker_sources
from tests.kit.operators.broker_sources import RECORDS, WRONG, Cursor, World
from tidewheel.testing import FakeBroker, check_source
from tidewheel.testing.fixtures import fake_broker

__all__ = ["fake_broker"]

SEED = 7
ROOT = Path(__file__).parents[2]
FOLDERS = ("operators", "connectors", "spark_bridge")
A_SOURCE = re.compile(r"^class (\w+)\((?:Inline)?Source\[", re.MULTILINE)


def test_a_source_that_keeps_the_contract_passes() -> None:
    """Partitions come and end, and committed records are gone."""
    world = World(Cursor)
    check_source(world.make, RECORDS, grow=world.grow, seed=SEED)


@pytest.mark.parametrize("at_a_time", [pytest.param(None, marks=pytest.mark.long), 1])
def test_the_fake_broker_has_a_correct_source(at_a_time: int | None) -> None:
    """With partitions that end, the job ends, also where one is read after the other."""
    brokers: list[FakeBroker] = []

    def make(folder: Path) -> tw.Source[Any]:
        broker = FakeBroker(RECORDS)
        for partition, records in RECORDS.items():
            broker.send(partition, *records)
        broker.end()
        brokers.append(broker)
        source = broker.source(batch_size=2)
        source.at_a_time = at_a_time
        return source

    check_source(make, RECORDS, seed=SEED)


def recorded(folder: Path) -> tw.Source[Any]:
    flow = tw.Dataflow("recording")
    flow.source("numbers", tw.RecordSource(range(4), batch_size=1, epoch_every=1)).capture_to(folder / "log")
    with tw.run(flow, engine="local") as job:
        job.wait(30)
    return tw.ReplaySource(folder / "log")


def rows(folder: Path, **options: Any) -> tw.Source[Any]:
    table = pa.table({"day": [0, 1, 1, 2], "n": [1, 2, 3, 4]})
    parquet.write_table(table, folder / "a.parquet", row_group_size=2)
    return tw.ParquetSource(folder, batch_size=1, **options)


class InProcess(tw.QueueSource[int]):
    """A queue of its own goes to no other process; on the local engine, workers share the object that fills it."""

    def __reduce__(self) -> Any:
        return in_process, (id(self),)


QUEUES: dict[int, InProcess] = {}


def in_process(number: int) -> InProcess:
    return QUEUES[number]


def queued(folder: Path) -> tw.Source[Any]:
    source = InProcess(batch_size=2, poll_s=0.001)
    QUEUES[id(source)] = source
    for number in range(5):
        source.put(number)
    source.close()
    return source


ROWS = [{"day": day, "n": n} for day, n in ((0, 1), (1, 2), (1, 3), (2, 4))]
CAPTURED = [tw.types.Captured(time, [time, -time - 1]) for time in (0, 2, 1)]
OURS: dict[str, tuple[Any, dict[str | int, list[Any]]]] = {
    "batches": (
        lambda folder: tw.IterableSource([[(0, [1, 2]), (2, [3])], [(1, [1])], []]),
        {0: [1, 2, 3], 1: [1]},
    ),
    "list": (lambda folder: tw.RecordSource(range(7), batch_size=2, epoch_every=2), {"0/1": list(range(7))}),
    "iterable": (lambda folder: tw.RecordSource({1: 1, 2: 2, 3: 3}.keys() | {4}, batch_size=1), {0: [1, 2, 3, 4]}),
    "function": (
        lambda folder: tw.RecordSource(lambda worker, workers: (n for n in range(5)), batch_size=2),
        {"0/1": list(range(5))},
    ),
    "ticks": (lambda folder: tw.TickSource(0.001, count=3), {0: [0, 1, 2]}),
    "captured": (lambda folder: tw.ReplaySource(CAPTURED), {"0/1": [0, -1, 2, -3, 1, -2]}),
    "row groups": (rows, {"0/1": ROWS}),
    "rows by time": (lambda folder: rows(folder, time="day"), {"0/1": ROWS}),
    "recording": (recorded, {0: [0, 1, 2, 3]}),
    "queue of its own": (queued, {"queue": list(range(5))}),
}


@pytest.mark.parametrize("name", OURS)
def test_the_sources_of_the_library_pass(name: str) -> None:
    """Those whose records are still there after a crash."""
    make, records = OURS[name]
    check_source(make, records, seed=SEED)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_each_fault_is_found(wrong: type[Cursor], monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash, an error or a change of the partitions at some call shows it."""
    monkeypatch.setattr("tidewheel.testing.source_check._TIMEOUT_S", 1.0)
    world = World(wrong)
    with pytest.raises(AssertionError, match="the job"):
        check_source(world.make, RECORDS, grow=world.grow, seed=SEED)


def test_the_fixture_is_a_broker(fake_broker: FakeBroker) -> None:
    """Tests of dataflows get one by its name, once a conftest.py names the module."""
    fake_broker.send(0, "a")
    assert fake_broker.partitions() == [0]


def test_a_source_without_records_checks_nothing() -> None:
    """It would pass whatever it does."""
    with raises(ValueError):
        check_source(World(Cursor).make, {0: []})


def test_another_object_is_no_source() -> None:
    """Such as a list of records."""
    with raises(TypeError):
        check_source(lambda folder: [1], {0: [1]})  # type: ignore[arg-type,return-value]


def test_each_source_of_the_library_is_in_the_table_of_its_page() -> None:
    """Whoever adds a source adds a row, which names a test that calls the check, or says why none can."""
    page = (ROOT / "docs/how-to/sources.md").read_text()
    table = page.split("### The sources of tidewheel\n")[1].split("\n## ")[0]
    rows = [row.split(" | ") for row in table.splitlines() if row.startswith("| `")]
    modules = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    sources = {name for path in modules for name in A_SOURCE.findall(path.read_text())} - {"InlineSource"}
    named = {name for source, *_ in rows for name in re.findall(r"`([A-Z]\w+)`", source)}
    assert named == sources
    for _, _, shown_by in rows:
        tests = [(ROOT / name).read_text() for name in re.findall(r"`(tests/\S+\.py)`", shown_by)]
        assert tests
        assert "`check_source`" not in shown_by or "check_source(" in tests[0]


def test_faults_are_many() -> None:
    """Each class of the kit that changes something is tried."""
    found = {kind for kind in vars(broker_sources).values() if isinstance(kind, type) and issubclass(kind, Cursor)}
    assert found - {Cursor} == set(WRONG)
