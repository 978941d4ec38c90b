"""Snapshots of collections: each writes what is new, old files go, and any number of workers goes on from them."""

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.collections.plain_collection import PlainCollection
from tests.kit.collections.programs import Change, Program, histories, inputs_at, interpret, programs
from tests.kit.collections.replaced_workers import NAMES, replaced
from tests.kit.operators.harness import operator_settings
from tests.kit.runtime.snapshot_group import SnapshotGroup, UnevenGroup
from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder

DEADLINE_S = 60.0
LINKS = 120_000


def program(links: Any) -> Any:
    """Return the end of each link with the least end of the links that have the same start."""
    return links.join(links.reduce_min(), lambda start, end, least: (end, least))


def result_of(links: Counter[tuple[Any, Any]]) -> Counter[Any]:
    """Return what `program` makes of some links, with the counts above 0."""
    least: dict[Any, Any] = {}
    for start, end in +links:
        least[start] = min(end, least.get(start, end))
    made: Counter[Any] = Counter()
    for (start, end), count in (+links).items():
        made[end, least[start]] += count
    return made


def blobs(folder: Path) -> dict[str, int]:
    """Return the sizes of the blobs of the newest snapshot, by name."""
    return {blob.name: blob.size for blob in SnapshotFolder(folder).stored_snapshots()[0].manifest.blobs}


def random_links(random: Random, count: int) -> list[tuple[int, int]]:
    return [(random.randrange(LINKS // 4), random.randrange(LINKS // 4)) for _ in range(count)]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_nan_of_a_snapshot_is_found_again(tmp_path: Path, workers: int) -> None:
    """Also within records and keys, and by upserts and look-ups; all that was added before is removed."""
    nan = float("nan")
    records = [("x", nan), (nan, 1.0), ((nan, "y"), 2), nan]

    def run(workers: int) -> Any:
        flow = tw.Dataflow("nan")
        added = flow.input("records").as_collection(diff=True)
        added.distinct().changes().capture("distinct")
        added.count().changes().probe("done").capture("counts")
        pairs = added.map(lambda record: ((record, "key"), 1)).lookup("pairs")
        pairs.reduce_min().join(pairs).changes().capture("joined")
        flow.input("rows").as_collection(upserts=True).changes().capture("rows")
        return tw.run(flow, workers=workers, engine="local", snapshots=tw.Snapshots(tmp_path))

    with run(workers) as job:
        job.input("records").send([(record, 1) for record in records])
        job.input("rows").send([(record, 1) for record in records])
        for name in ("records", "rows"):
            job.input(name).advance_to(1)
        job.probe("done").wait_until(1, timeout_s=DEADLINE_S)
        job.stop(snapshot=True)
    nan = float("nan")  # another object
    with run(3 - workers) as job:
        assert job.lookup("pairs", (("x", nan), "key")).values == [1]
        job.input("records").send([(record, -1) for record in [("x", nan), (nan, 1.0), ((nan, "y"), 2), nan]])
        job.input("rows").send([(record, None) for record in [("x", nan), (nan, 1.0), ((nan, "y"), 2), nan]])
        for name in ("records", "rows"):
            job.input(name).close()
        job.wait(DEADLINE_S)
        for name in ("distinct", "counts", "joined", "rows"):
            counts = [(one.time, count) for one in job.captured(name) for _, count in one.batch]
            assert sorted(counts) == [(0, 1)] * len(records) + [(1, -1)] * len(records), name


class Feeder:
    """Feeds a job epoch by epoch, and knows which links there are."""

    def __init__(self) -> None:
        self.links: Counter[tuple[int, int]] = Counter()
        self.epoch = 0

    def feed(self, job: tw.types.Job, updates: list[tuple[tuple[int, int], int]]) -> None:
        links = job.input("links")
        for number, share in enumerate((updates[::2], updates[1::2])):
            links.send(share, worker=number)
        self.epoch += 1
        links.advance_to(self.epoch)
        job.probe("done").wait_until(self.epoch, timeout_s=DEADLINE_S)
        for link, count in updates:
            self.links[link] += count

    def change(self, job: tw.types.Job, random: Random, count: int) -> None:
        """Add some links, and remove as many."""
        gone = random.sample([link for link, there in self.links.items() if there], count)
        self.feed(job, [(link, 1) for link in random_links(random, count)] + [(link, -1) for link in gone])


@pytest.mark.long
@pytest.mark.parametrize("make", [pytest.param(int, id="numbers"), pytest.param("node {}".format, id="texts")])
def test_a_snapshot_writes_what_is_new(tmp_path: Path, make: Callable[[int], Any]) -> None:
    """A few percent of the first after a small change, and altogether never much more than the state has."""
    random, feeder = Random(0), Feeder()
    found: Counter[Any] = Counter()

    def run(workers: int) -> Any:
        flow = tw.Dataflow("links")
        links = flow.input("links").as_collection(diff=True).map(lambda link: (make(link[0]), make(link[1])))
        changes = program(links).changes()
        changes.inspect(lambda change: found.update({change[0]: change[1]})).probe("done")
        snapshots = tw.Snapshots(tmp_path, every_s=3600, keep=1)
        return tw.run(flow, workers=workers, engine="local", snapshots=snapshots)

    with run(2) as job:
        feeder.feed(job, [(link, 1) for link in random_links(random, LINKS)])
        job.snapshot()
        first = present = blobs(tmp_path)
        feeder.change(job, random, 10)
        job.snapshot()
        second = blobs(tmp_path)
        assert sum(size for name, size in second.items() if name not in first) < 0.05 * sum(first.values())
        for count in [10] * 2 + [LINKS * 3 // 20] * 10:
            feeder.change(job, random, count)
            job.snapshot()
            present = blobs(tmp_path)
            assert sum(present.values()) < 3 * sum(first.values())
        assert not set(first) & set(present), "all links have changed, so no file of the first snapshot is needed"
        assert {f"parts/{path.name}" for path in (tmp_path / "parts").iterdir()} == set(present)
        job.stop()
    with run(3) as job:
        feeder.change(job, random, 10)
        job.input("links").close()
        job.wait(DEADLINE_S)
    links = Counter({(make(start), make(end)): count for (start, end), count in feeder.links.items()})
    assert +found == result_of(links)


def outcome(program: Program, history: list[Change], kind: type[SnapshotGroup], workers: int, random: Random) -> Any:
    """Return the changes of each epoch of a program whose workers are replaced by others every now and then."""
    flow = tw.Dataflow("program")
    interpret(program, [flow.input(name).as_collection(diff=True) for name in NAMES]).changes().capture("changes")
    found: dict[int, Counter[Any]] = defaultdict(Counter)
    for epoch, batch in replaced(flow, [(change, change.updates) for change in history], kind, workers, random):
        for record, count in batch:
            found[epoch][record] += count
    return found


def check(
    program: Program, history: list[Change], workers: int, seed: int, kind: type[SnapshotGroup] = SnapshotGroup
) -> None:
    """Compare each epoch of a program whose workers are replaced with plain Python."""
    changes = outcome(program, history, kind, workers, Random(seed))
    present: Counter[Any] = Counter()
    for epoch in range(max(change.epoch for change in history) + 1):
        for record, count in changes.pop(epoch, {}).items():
            present[record] += count
        expected = interpret(program, [PlainCollection(counts) for counts in inputs_at(history, epoch)]).counts
        assert {record: count for record, count in present.items() if count} == expected
    assert not changes


@operator_settings(max_examples=10)
@given(programs(), histories(), st.sampled_from((1, 2, 3)), st.integers(0, 2**32))
def test_random_programs_go_on_from_snapshots(program: Program, history: list[Change], workers: int, seed: int) -> None:
    """Whenever the workers are replaced, and by how many, the result is what plain Python says."""
    check(program, history, workers, seed)


@operator_settings(max_examples=15)
@given(programs(), histories(), st.sampled_from((2, 3)), st.integers(0, 2**32))
def test_random_programs_go_on_while_a_worker_is_behind(
    program: Program, history: list[Change], workers: int, seed: int
) -> None:
    """The same if others have completed times of which one worker has not received what belongs to it."""
    check(program, history, workers, seed, UnevenGroup)


@pytest.mark.long
@operator_settings(max_examples=300)
@given(programs(7), histories(6), st.sampled_from((1, 2, 3)), st.integers(0, 2**32))
def test_larger_programs_go_on_from_snapshots(program: Program, history: list[Change], workers: int, seed: int) -> None:
    """The same, many times over."""
    check(program, history, workers, seed)
    check(program, history, workers, seed, UnevenGroup)
