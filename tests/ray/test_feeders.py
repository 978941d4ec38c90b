"""Inputs that are fed from other processes than the driver, by handles that were handed to them."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
import ray

import tidewheel as tw
from tests.ray.leftovers import nothing_left
from tests.slow_operator import build_slow
from tests.waiting import eventually
from tidewheel.transport.link import LinkName

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
ENDS_WITHIN_S = 10.0


class Feeder:
    """Feeds inputs, from an actor."""

    def __init__(self) -> None:
        self.kept: Any = None

    def feed(self, handle: tw.types.InputHandle, first: int, epochs: int) -> int:
        """Send one record for each epoch, and close the handle."""
        with handle:
            for epoch in range(epochs):
                handle.send([first + epoch])
                handle.advance_to(epoch + 1)
        return os.getpid()

    def keep(self, handles: list[tw.types.InputHandle]) -> int:
        """Use a handle, and keep it."""
        self.kept = handles[0]
        self.kept.send([1])
        return os.getpid()

    def forget(self) -> None:
        """Keep no handle any more."""
        self.kept = None

    def keep_other(self, handles: list[tw.types.InputHandle]) -> None:
        """Use another handle."""
        handles[0].send([2])

    def use(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Use the handle that was kept."""
        return getattr(self.kept, method)(*arguments, **options)

    def hand_on(self, other: Any) -> None:
        """Give the handle that was kept to another feeder."""
        ray.get(other.keep.remote([self.kept]))

    def unordered(self, handles: list[tw.types.InputHandle]) -> None:
        """Send at ten times, in any order, by a handle for each."""
        [first] = handles
        later = [first.delayed(at) for at in range(10)]
        first.close()
        for at in (7, 2, 9, 0, 5):
            later[at].send([10 * at])
        for handle in later:
            handle.close()

    def wait_for_room(self, handles: list[tw.types.InputHandle]) -> tuple[int, bool]:
        """Send until nothing more goes without waiting, then as much again; tell how many went at first."""
        [handle] = handles
        at_once = 0
        try:
            while at_once < 100_000:
                handle.send([b"x" * 1000], timeout_s=0)
                at_once += 1
        except tw.errors.WouldBlock:
            pass
        for _ in range(1000):
            handle.send([b"x" * 1000])
        handle.close()
        return at_once, handle.statistics.seconds_waited > 0


@pytest.fixture(scope="module")
def all_feeders(ray_cluster: str) -> Iterator[list[Any]]:
    found: list[Any] = [new_feeder(), new_feeder()]
    yield found
    for one in found:
        ray.kill(one)


def new_feeder() -> Any:
    feeder: Any = ray.remote(Feeder).options(num_cpus=0).remote()
    ray.get(feeder.__ray_ready__.remote(), timeout=DEADLINE_S)
    return feeder


@pytest.fixture
def feeders(all_feeders: list[Any]) -> Iterator[list[Any]]:
    """Two that have fed the jobs of other tests, and keep nothing of them."""
    yield all_feeders
    ray.get([feeder.forget.remote() for feeder in all_feeders], timeout=DEADLINE_S)


def numbers_flow() -> tw.Dataflow:
    flow = tw.Dataflow("fed")
    flow.input("numbers").exchange(hash).probe("done").capture("results")
    return flow


def results(job: tw.types.Job) -> Counter[tuple[Any, Any]]:
    return Counter((entry.time, number) for entry in job.captured("results") for number in entry.batch)


@pytest.mark.parametrize("link", ["socket", pytest.param("ray", marks=pytest.mark.long)])
def test_actors_and_tasks_feed_an_input(link: LinkName, feeders: list[Any]) -> None:
    """Each with a handle of its own; all that they sent arrives, at its time, and is in the statistics."""

    def feed(handle: tw.types.InputHandle, first: int, epochs: int) -> None:
        with handle:
            for epoch in range(epochs):
                handle.send([first + epoch])
                handle.advance_to(epoch + 1)

    with tw.run(numbers_flow(), workers=2, config=tw.RuntimeConfig(link=link)) as job:
        own = job.input("numbers")
        calls = [feeder.feed.remote(own.clone(), 1000 * at, 50) for at, feeder in enumerate(feeders, start=1)]
        calls.append(ray.remote(feed).options(num_cpus=0, max_retries=0).remote(own.clone(), 5000, 50))
        own.send([7])
        own.close()
        ray.get(calls, timeout=DEADLINE_S)
        job.wait(timeout_s=DEADLINE_S)
        expected = Counter((epoch, first + epoch) for first in (1000, 2000, 5000) for epoch in range(50))
        assert results(job) == expected + Counter([(0, 7)])
        assert eventually(lambda: job.statistics().inputs["numbers"].records == 151)


@pytest.mark.long
def test_a_feeder_that_is_done_holds_nothing(feeders: list[Any]) -> None:
    """No thread and no socket, however many jobs it has fed; nor does the job."""
    jobs = 5

    def feed_a_job() -> psutil.Process:
        with tw.run(numbers_flow()) as job:
            pid = ray.get(feeders[0].feed.remote(job.input("numbers"), 0, 3), timeout=DEADLINE_S)
            job.wait(timeout_s=DEADLINE_S)
            return psutil.Process(pid)

    def held(process: psutil.Process) -> Counter[str]:
        return Counter(threads=process.num_threads(), files=process.num_fds())

    with nothing_left():
        process = feed_a_job()
        before = held(process) + Counter(threads=jobs - 2, files=jobs - 2)  # Ray has some more at times
        for _ in range(jobs):
            feed_a_job()
        assert eventually(lambda: not held(process) - before), f"{held(process)} instead of {before}"


def test_a_feeder_holds_as_many_tokens_as_it_likes(feeders: list[Any]) -> None:
    """Records come in any order of times."""
    with tw.run(numbers_flow(), workers=2) as job:
        ray.get(feeders[0].unordered.remote([job.input("numbers")]), timeout=DEADLINE_S)
        job.wait(timeout_s=DEADLINE_S)
        assert results(job) == Counter([(7, 70), (2, 20), (9, 90), (0, 0), (5, 50)])


def test_a_handle_holds_its_time_wherever_it_is(feeders: list[Any]) -> None:
    """The explanation says that it is elsewhere; when it advances there, the time is complete here."""
    with tw.run(numbers_flow(), workers=2) as job:
        done = job.probe("done")
        ray.get(feeders[0].keep.remote([job.input("numbers").clone()]), timeout=DEADLINE_S)
        job.input("numbers").advance_to(5)
        assert eventually(lambda: "the handle that was pickled may be at that time" in str(job.explain("done")))
        assert eventually(lambda: "(open ones are in process " in str(job.explain("done")))
        ray.get(feeders[0].hand_on.remote(feeders[1]), timeout=DEADLINE_S)
        with pytest.raises(tw.errors.TokenError, match="was pickled, so another process has it now"):
            ray.get(feeders[0].use.remote("send", [1]), timeout=DEADLINE_S)
        assert list(done.frontier) == [0]
        ray.get(feeders[1].use.remote("advance_to", 3), timeout=DEADLINE_S)
        done.wait_until(3, timeout_s=DEADLINE_S)
        ray.get(feeders[1].use.remote("close"), timeout=DEADLINE_S)
        done.wait_until(5, timeout_s=DEADLINE_S)
        job.input("numbers").close()
        job.wait(timeout_s=DEADLINE_S)
        assert results(job) == Counter([(0, 1), (0, 1)])


def test_a_handle_is_used_by_one_process(feeders: list[Any]) -> None:
    """The second that unpickles it is told who has it, and the job goes on."""
    with tw.run(numbers_flow(), workers=1) as job:
        shared = ray.put([job.input("numbers")])
        pid = ray.get(feeders[0].keep.remote(shared), timeout=DEADLINE_S)
        with pytest.raises(
            tw.errors.TokenError, match=rf"unpickled twice: process {pid} on node .* was the first to use it"
        ):
            ray.get(feeders[1].keep.remote(shared), timeout=DEADLINE_S)
        ray.get(feeders[0].use.remote("close"), timeout=DEADLINE_S)
        job.wait(timeout_s=DEADLINE_S)


@pytest.mark.parametrize("is_actor", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_feeder_that_dies_fails_the_job(feeders: list[Any], *, is_actor: bool) -> None:
    """What it would have sent is missing; the error says which process fed what."""
    with nothing_left():
        job = tw.run(numbers_flow(), workers=2, config=tw.RuntimeConfig(hang_timeout_s=3))
        if is_actor:
            pid = ray.get(feeders[0].keep.remote([job.input("numbers")]), timeout=DEADLINE_S)
        else:

            def hang(handle: tw.types.InputHandle) -> None:
                handle.send([os.getpid()])
                threading.Event().wait(DEADLINE_S)

            ended = ray.remote(hang).options(num_cpus=0, max_retries=0).remote(job.input("numbers"))
            assert list(job.probe("done").frontier) == [0]
            assert eventually(lambda: bool(results(job)))
            pid = next(number for _, number in results(job))
            assert ray.wait([ended], timeout=0)[0] == []
        assert eventually(lambda: job.statistics().inputs["numbers"].records == 1)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(tw.JobError, match=rf"process {pid} on node .* fed 'numbers' and has gone without closing"):
            job.wait(timeout_s=ENDS_WITHIN_S)
        job.stop()
    if is_actor:
        feeders[0] = new_feeder()


def test_a_feeder_learns_that_the_job_has_ended(feeders: list[Any]) -> None:
    """Soon, with an error that says so; closing what it has left does not wait for ever."""
    with tw.run(numbers_flow(), workers=1) as job:
        ray.get(feeders[0].keep.remote([job.input("numbers")]), timeout=DEADLINE_S)
        job.stop()

    def told() -> bool:
        try:
            ray.get(feeders[0].use.remote("send", [1]), timeout=DEADLINE_S)
        except tw.JobError as error:
            return "which this process feeds, has ended" in str(error)
        return False

    assert eventually(told)


def test_a_feeder_waits_for_a_slow_dataflow(feeders: list[Any]) -> None:
    """As the driver does, within the same limit; its waiting is in the job's statistics."""
    flow = tw.Dataflow("slow")
    flow.input("texts").unary(build_slow, name="slow").map(len).capture("results")
    with tw.run(flow, workers=2, config=tw.RuntimeConfig(bytes_in_flight=100_000)) as job:
        went, has_waited = ray.get(feeders[0].wait_for_room.remote([job.input("texts")]), timeout=DEADLINE_S)
        job.wait(timeout_s=DEADLINE_S)
        assert results(job) == Counter({(0, 1000): went + 1000})
        assert eventually(lambda: job.statistics().inputs["texts"].records == went + 1000)
        if has_waited:
            assert job.statistics().inputs["texts"].seconds_waited > 0


def test_many_threads_wait_and_send_at_once() -> None:
    """Each with a handle of its own that is mostly too far ahead: nobody waits for a lock that waits for him."""
    with tw.run(numbers_flow(), workers=2, config=tw.RuntimeConfig(epochs_ahead=2)) as job:
        first = job.input("numbers")
        handles = [first.clone() for _ in range(6)]
        first.close()

        def advance(handle: tw.types.InputHandle) -> None:
            with handle:
                for epoch in range(300):
                    handle.advance_to(epoch + 1)

        threads = [threading.Thread(target=advance, args=[handle], daemon=True) for handle in handles]
        for thread in threads:
            thread.start()
        job.wait(timeout_s=DEADLINE_S)
        for thread in threads:
            thread.join(DEADLINE_S)
        assert not any(thread.is_alive() for thread in threads)


def test_a_handle_is_used_by_one_object(feeders: list[Any]) -> None:
    """Unpickled twice in one process, it is two; the second is refused, and what the first sends arrives."""
    with tw.run(numbers_flow(), workers=1) as job:
        shared = ray.put([job.input("numbers")])
        ray.get(feeders[0].keep.remote(shared), timeout=DEADLINE_S)
        with pytest.raises(tw.errors.TokenError, match="was unpickled twice in this process"):
            ray.get(feeders[0].keep_other.remote(shared), timeout=DEADLINE_S)
        ray.get(feeders[0].use.remote("close"), timeout=DEADLINE_S)
        job.wait(timeout_s=DEADLINE_S)
        assert results(job) == Counter([(0, 1)])


@pytest.mark.parametrize("link", ["socket", pytest.param("ray", marks=pytest.mark.long)])
def test_a_handle_is_no_record_of_its_own_dataflow(link: LinkName) -> None:
    """The batch is refused, and nothing of what is sent before and after is lost."""
    with tw.run(numbers_flow(), workers=1, config=tw.RuntimeConfig(link=link)) as job:
        numbers = job.input("numbers")
        other = numbers.clone()
        numbers.send([1])
        with pytest.raises(tw.JobError, match="cannot be a record of the dataflow that it feeds"):
            numbers.send([other])
        numbers.send([2])
        other.send([3])
        other.close()
        numbers.close()
        job.wait(timeout_s=DEADLINE_S)
        assert results(job) == Counter([(0, 1), (0, 2), (0, 3)])


def fail_at_once(handle: tw.types.InputHandle) -> None:
    with handle:
        raise ValueError("no luck")


def use_and_drop(handle: tw.types.InputHandle) -> None:
    handle.send([1])


def never_use(handle: tw.types.InputHandle) -> None:
    pass


@pytest.mark.parametrize(
    ("feed", "reason"),
    [
        (fail_at_once, "ValueError: no luck"),
        pytest.param(use_and_drop, r"dropped at time 0 without close\(\)", marks=pytest.mark.long),
        (never_use, "dropped at time 0"),
    ],
)
def test_a_handle_that_is_given_up_fails_the_job(feed: Any, reason: str) -> None:
    """Though the process lives on, as those of tasks do: what would have been sent is missing."""
    job = tw.run(numbers_flow(), workers=1)
    call = ray.remote(feed).options(num_cpus=0, max_retries=0).remote(job.input("numbers"))
    assert ray.wait([call], timeout=DEADLINE_S)[0]  # Ray may have to start a process for it
    with pytest.raises(tw.JobError, match=rf"process \d+ on node .* has given up a handle .*incomplete: .*{reason}"):
        job.wait(timeout_s=ENDS_WITHIN_S)
    job.stop()


def test_a_feeder_need_not_wait_for_a_job_that_is_paused(feeders: list[Any]) -> None:
    """It sends and closes; all of that arrives once the job runs."""
    with tw.run(numbers_flow(), workers=1, paused=True) as job:
        ray.get(feeders[0].feed.remote(job.input("numbers"), 0, 3), timeout=DEADLINE_S)
        job.start()
        job.wait(timeout_s=DEADLINE_S)
        assert results(job) == Counter([(0, 0), (1, 1), (2, 2)])


def test_an_operator_may_feed_another_dataflow_or_its_own() -> None:
    """From the worker on which it runs; closing a handle there waits for nobody, and nothing is lost."""
    down = tw.Dataflow("down")
    down.input("numbers").capture("results")

    def passing(handle: tw.types.InputHandle) -> Any:
        def build(context: tw.OperatorContext) -> Any:
            def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
                for _, batch in input:
                    handle.send(batch)
                if not input.frontier and not handle.is_closed:
                    handle.close()

            return schedule

        return build

    with tw.run(numbers_flow(), workers=1) as job:
        lower = job.add(down)
        up = tw.Dataflow("up")
        up.input("numbers").unary(passing(lower.input("numbers")), name="pass").probe("done")
        upper = job.add(up)
        for number in range(10):
            upper.input("numbers").send([number])
        upper.input("numbers").close()
        own = tw.Dataflow("own")
        own.input("numbers").unary(passing(job.input("numbers")), name="close").probe("done")
        job.add(own).input("numbers").close()
        job.wait(timeout_s=DEADLINE_S)
        assert results(lower) == Counter([(0, number) for number in range(10)])
