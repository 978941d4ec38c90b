"""Look-ups by key have whole epochs, from any thread and after a restart, and their errors say what to do."""

import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises

SELDOM_S = 1000.0
SEED = 7


def describe() -> tw.Dataflow:
    """Return a dataflow with an input of upserts that can be looked up, and a probe behind."""
    flow = tw.Dataflow("prices")
    flow.input("prices").as_collection(upserts=True).lookup("prices").changes().probe("done")
    return flow


def run(flow: tw.Dataflow | None = None, **settings: Any) -> tw.types.Job:
    return tw.run(flow or describe(), engine="local", **{"workers": 2, **settings})


def feed(job: tw.types.Job, *epochs: dict[Any, Any]) -> tw.types.InputHandle:
    """Send epochs; the first is the one at which the handle is."""
    handle = job.input("prices")
    for epoch in epochs:
        handle.send(list(epoch.items()))
        handle.advance_to(handle.time + 1)
    return handle


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_key_has_the_values_of_an_epoch(workers: int) -> None:
    """One key or many, also those that are nowhere; each value as often as it is there."""
    flow = tw.Dataflow("drinks")
    flow.input("wishes").as_collection(diff=True).lookup("wishes")
    with tw.run(flow, workers=workers, engine="local") as job:
        wishes = job.input("wishes")
        wishes.send([(("ann", "tea"), 2), (("ann", "oil"), 1), (("bob", "tea"), 1)])
        wishes.advance_to(1)
        found = job.lookup("wishes", "ann", time=0)
        assert (found.time, found.counts) == (0, {"ann": {"tea": 2, "oil": 1}})
        assert sorted(found.values) == ["oil", "tea", "tea"]
        wishes.send([(("ann", "oil"), -1)])
        wishes.advance_to(5)
        found = job.lookup("wishes", ["bob", "ann", "ann", "eve"], time=4)
        assert (found.time, found["ann"], found["bob"], found["eve"]) == (4, ["tea", "tea"], ["tea"], [])
        assert job.lookup("wishes", []).counts == {}
        job.stop()


def test_the_last_state_stays_until_the_block_ends() -> None:
    """The time is None then. The last epoch can be read by its number, as somebody may know no other."""
    with run() as job:
        handle = feed(job, {"tea": 3})
        handle.send([("tea", 4)])
        handle.close()
        job.wait(10)
        assert job.lookup("prices", "tea") == tw.types.LookedUp(None, {"tea": {4: 1}})
        assert job.lookup("prices", "tea", time=1) == tw.types.LookedUp(1, {"tea": {4: 1}})
    with raises(tw.JobError):
        job.lookup("prices", "tea")


def test_a_later_call_has_no_earlier_epoch() -> None:
    """Though another worker answers, which has heard less."""
    with run(workers=4) as job:
        last = 0
        for epoch in range(30):
            feed(job, dict.fromkeys("abcdefgh", epoch))
            for key in "abcdefgh":
                found = job.lookup("prices", key)
                assert found.time is not None
                assert found.time >= last
                assert found.values == [found.time]
                last = found.time
        assert last > 0
        job.stop()


def test_threads_see_all_of_an_epoch_or_nothing() -> None:
    """A reader of pairs of keys that always change together never sees one without the other."""
    wrong: list[tw.types.LookedUp] = []
    read: list[int] = []
    is_over = threading.Event()

    def hammer(job: tw.types.Job, random: Random) -> None:
        while not is_over.is_set():
            pair = random.randrange(20)
            found = job.lookup("prices", [f"left {pair}", f"right {pair}"])
            read.append(found.time or 0)
            if found[f"left {pair}"] != found[f"right {pair}"] or found.values[:1] != [found.time]:
                wrong.append(found)

    with run(workers=3) as job:
        keys = [f"{side} {pair}" for pair in range(20) for side in ("left", "right")]
        feed(job, dict.fromkeys(keys, 0))
        job.probe("done").wait_until(1, 10)
        readers = [threading.Thread(target=hammer, args=[job, Random(SEED + n)]) for n in range(2)]
        for reader in readers:
            reader.start()
        for epoch in range(1, 40):
            feed(job, dict.fromkeys(keys, epoch))
            if epoch % 8 == 0:
                job.probe("done").wait_until(epoch - 4, 30)
        job.probe("done").wait_until(40, 30)
        is_over.set()
        for reader in readers:
            reader.join(30)
        job.stop()
    assert wrong == [], f"seed {SEED}"
    assert read


def test_epochs_before_the_newest_are_kept_no_more() -> None:
    with run() as job:
        feed(job, {"tea": 3}, {"tea": 4}, {"tea": 5})
        job.probe("done").wait_until(3, 10)
        with raises(tw.JobError):
            job.lookup("prices", "tea", time=0)
        assert job.lookup("prices", "tea", time=2).values == [5]
        job.stop()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ranks", "tea"), r"dataflow 'prices' has no look-up 'ranks'; it has \['prices'\]"),
        (("prices", {"tea"}), "look-up 'prices': no record can have such a key"),
        (("prices", object()), "look-up 'prices': no record can have such a key"),
        (("prices", [["tea"]]), "look-up 'prices': no record can have such a key"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(arguments: Any, said: str) -> None:
    with run() as job:
        with pytest.raises(tw.JobError, match=said):
            job.lookup(*arguments)
        job.stop()


def test_times_that_are_none_are_refused() -> None:
    wrong: Any
    with run() as job:
        for wrong in (-1, "now", 1.5):
            with raises(tw.JobError):
                job.lookup("prices", "tea", time=wrong)
        job.stop()


def test_it_is_said_why_there_is_no_answer() -> None:
    """No epoch is complete, the job is paused, or it has failed."""
    with run() as job:
        job.input("prices").send([("tea", 3)])
        with raises(tw.JobError):
            job.lookup("prices", "tea", time=2)
        with raises(tw.JobError):
            job.lookup("prices", "tea")
        assert "'prices'" in str(job.explain("prices"))
        with raises(tw.JobError):
            job.probe("done").wait_until(1, 10)
        assert not any(core.questions._open for core in job._cores)  # type: ignore[attr-defined]
        job.stop()
    with run(paused=True) as job:
        with raises(tw.JobError):
            job.lookup("prices", "tea")
        job.stop()
    flow = tw.Dataflow("numbers")
    flow.input("numbers").as_collection().lookup("numbers")
    job = run(flow)
    job.input("numbers").send([7])
    with raises(tw.JobError):
        job.lookup("numbers", 7)


def test_look_ups_that_cannot_be_are_refused() -> None:
    """Those in a loop, and of a name that another has."""
    flow = tw.Dataflow("test")
    pairs = flow.input("pairs").as_collection()
    with raises(tw.GraphError):
        pairs.iterate(lambda inner: inner.lookup("inner"))
    assert pairs.lookup("pairs") is pairs
    with raises(tw.GraphError):
        pairs.lookup("pairs")


@pytest.mark.parametrize("workers", [2, 3])
def test_a_job_that_goes_on_has_the_state_of_its_snapshot(tmp_path: Path, workers: int) -> None:
    """As of the newest epoch that was complete, with any number of workers; of earlier ones it has nothing."""
    with run(snapshots=tw.Snapshots(tmp_path, every_s=SELDOM_S)) as job:
        feed(job, dict.fromkeys("abcde", 1), dict.fromkeys("abc", 2), {"a": None})
        job.probe("done").wait_until(3, 10)
        job.stop(snapshot=True)
    with run(snapshots=tw.Snapshots(tmp_path, every_s=SELDOM_S), workers=workers) as job:
        found = job.lookup("prices", list("abcde"))
        assert (found.time, [found[key] for key in "abcde"]) == (2, [[], [2], [2], [1], [1]])
        with raises(tw.JobError):
            job.lookup("prices", list("abcde"), time=1)
        feed(job, {"b": 5})
        assert job.lookup("prices", "b", time=3).values == [5]
        job.stop()


def test_added_dataflows_have_look_ups_of_their_own() -> None:
    with run() as job:
        feed(job, {"tea": 3})
        other = tw.Dataflow("other")
        other.source("pairs", tw.IterableSource([[(0, [("tea", "green")])]])).as_collection().lookup("prices")
        added = job.add(other)
        assert (job.lookup("prices", "tea").values, added.lookup("prices", "tea").values) == ([3], ["green"])
        job.stop()
