"""A job that is started again goes on from its last snapshot: what comes out is what an undisturbed job computes."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import settle
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.messages.input_position import InputPosition
from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder

SELDOM_S = 1000.0
ROOT = Path(__file__).parents[3]


def running_total(context: tw.OperatorContext) -> Schedule:
    """Send each key with the number of its records so far, in the order of epochs."""
    counts = context.keyed_state("counts")
    batches: dict[int, list[str]] = context.state("batches", dict)
    notificator = context.notificator()

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for token, batch in input:
            batches.setdefault(token.time, []).extend(batch)
            notificator.notify_at(token)
        for ready in notificator.ready(input):
            for word in sorted(batches.pop(ready.time)):
                counts[word] = counts.get(word, 0) + 1
                output.send(ready, [(word, counts[word])])

    return schedule


def counting(name: str = "counting") -> tw.Dataflow:
    flow = tw.Dataflow(name)
    words = flow.input("words")
    words.unary(running_total, exchange=lambda word: word, name="count").probe("done").capture("counts")
    return flow


EPOCHS = [["a", "b"], ["a"], ["c", "a"], ["b", "b"], ["a", "c"], ["d"]]
"""The words of each epoch."""

EXPECTED = Counter(
    (time, (word, [word for epoch in EPOCHS[:time] for word in epoch].count(word) + 1 + place))
    for time, epoch in enumerate(EPOCHS)
    for word in set(epoch)
    for place in range(epoch.count(word))
)


def counts(job: tw.types.Job, name: str = "counts") -> Counter[Any]:
    """Return what was captured, each record with its time."""
    return Counter((entry.time, record) for entry in job.captured(name) for record in entry.batch)


def begin(folder: Path, flow: tw.Dataflow | None = None, workers: int = 2, **settings: Any) -> tw.types.Job:
    settings = {"every_s": SELDOM_S, **settings}
    flow = counting() if flow is None else flow
    return tw.run(flow, workers=workers, engine="local", snapshots=tw.Snapshots(folder, **settings))


def send_on(handle: tw.types.InputHandle, epochs: Iterable[list[str]] = EPOCHS, until: int = len(EPOCHS)) -> None:
    """Send the epochs that a handle has not sent yet, one batch each, as a user would who keeps to its position."""
    for time, words in list(enumerate(epochs))[handle.position.batches : until]:
        handle.advance_to(time)
        handle.send(words)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "snapshots"


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("cut", range(len(EPOCHS) + 1))
def test_a_job_goes_on_where_the_snapshot_is(cut: int, workers: int, folder: Path) -> None:
    """Wherever it is cut: records that came after the snapshot are sent again by the position, and count once."""
    with begin(folder, workers=workers) as job:
        send_on(job.input("words"), until=cut)
        assert job.snapshot() == 1
        send_on(job.input("words"), until=cut + 2)
        settle(job)
        job.stop()
    with begin(folder, workers=workers) as job:
        words = job.input("words")
        sent = sum(map(len, EPOCHS[:cut]))
        assert words.position == InputPosition(max(0, cut - 1), cut, sent, batches_at_time=min(cut, 1))
        send_on(words)
        words.close()
        job.wait()
        assert counts(job) == EXPECTED


def test_each_stop_with_a_snapshot_is_gone_on_from(folder: Path) -> None:
    """Six runs, each of which sends one epoch: the last has all results."""
    for time in range(len(EPOCHS)):
        with begin(folder) as job:
            send_on(job.input("words"), until=time + 1)
            job.stop(snapshot=True)
    with begin(folder) as job:
        job.input("words").close()
        job.wait()
        assert counts(job) == EXPECTED


ALWAYS_S = 1e-9
"""Another snapshot is due as soon as one is committed, as on a disk that is slower than ``every_s``."""


def test_a_job_ends_though_the_next_snapshot_is_always_due(folder: Path) -> None:
    """What is complete needs no further snapshot; and what comes of it is on disk, as far as it had come."""
    with begin(folder, every_s=ALWAYS_S) as job:
        send_on(job.input("words"))
        job.input("words").close()
        job.wait(timeout_s=30)
        assert counts(job) == EXPECTED
    with begin(folder, every_s=ALWAYS_S) as job:
        send_on(job.input("words"))
        job.input("words").close()
        job.wait(timeout_s=30)
        assert counts(job) == EXPECTED


def test_a_job_with_nothing_left_to_do_says_so_though_a_snapshot_is_always_due(folder: Path) -> None:
    """It is an error at once that an input is open, as without snapshots: between two of them, it comes to rest."""
    with begin(folder, every_s=ALWAYS_S) as job:
        job.input("words").send(["a"])
        with raises(tw.JobError):
            job.wait(timeout_s=30)
        job.stop()


def test_without_a_snapshot_a_job_begins_anew(folder: Path) -> None:
    """Also if one ran before with the same folder, and has taken none."""
    for _ in range(2):
        with begin(folder) as job:
            words = job.input("words")
            assert words.position == InputPosition(0, 0, 0)
            send_on(words)
            words.close()
            job.wait()
            assert counts(job) == EXPECTED


def test_a_complete_job_is_complete_again(folder: Path) -> None:
    """Its inputs were closed: who keeps to the position sends nothing, closing them again does nothing."""
    with begin(folder) as job:
        send_on(job.input("words"))
        job.input("words").close()
        job.wait()
        job.snapshot()
    with begin(folder) as job:
        words = job.input("words")
        assert words.is_closed
        sent = sum(map(len, EPOCHS))
        assert words.position == InputPosition(len(EPOCHS) - 1, len(EPOCHS), sent, is_closed=True, batches_at_time=1)
        assert job.handles("words") == []
        send_on(words)
        words.close()
        job.wait()
        assert counts(job) == EXPECTED
        job.snapshot()


def test_who_begins_from_the_start_again_is_told(folder: Path) -> None:
    """A program that forgets about the position: the error says where the job goes on."""
    with begin(folder) as job:
        send_on(job.input("words"), until=4)
        job.stop(snapshot=True)
    with begin(folder) as job:
        with pytest.raises(tw.errors.TokenError) as error:
            job.input("words").advance_to(0)
        assert str(error.value).endswith("The job goes on from a snapshot: send what comes after the handle's position")
        job.input("words").close()
    with begin(folder) as job:
        job.input("words").close()
        job.stop(snapshot=True)
    with begin(folder) as job:
        with raises(tw.errors.TokenError):
            job.input("words").send(["a"])
        job.stop()


def test_several_handles_are_there_again(folder: Path) -> None:
    """Each with its number, its time and its position; the first may be closed."""
    with begin(folder) as job:
        first = job.input("words")
        later = first.delayed(3)
        later.send(["later"])
        first.send(["early"])
        other = first.clone()
        first.close()
        job.snapshot()
        numbers = {later.number: later.position, other.number: other.position}
        job.stop()
    with begin(folder) as job:
        assert job.input("words").is_closed
        found = job.handles("words")
        assert {handle.number: handle.position for handle in found} == numbers
        assert sorted(handle.time for handle in found) == [0, 3]
        for handle in found:
            handle.send(["again"])
            handle.close()
        job.wait()
        assert counts(job) == Counter(
            {(0, ("early", 1)): 1, (0, ("again", 1)): 1, (3, ("again", 2)): 1, (3, ("later", 1)): 1}
        )


def counter(context: tw.OperatorContext) -> Schedule:
    """Send the numbers up to 20, one in each epoch, on each worker."""
    token, sent = context.state("token", lambda: (context.token(), [0]))

    def schedule(output: tw.OutputPort) -> None:
        if not token.is_live:
            return
        output.send(token, [sent[0]])
        sent[0] += 1
        if sent[0] < 20:
            token.downgrade(sent[0])
            context.activate()
        else:
            token.discard()

    return schedule


@pytest.mark.parametrize("rounds", [1, 5, 30])
def test_an_operator_that_begins_with_a_token_goes_on_by_itself(rounds: int, folder: Path) -> None:
    """It takes the token where its state is made, and finds it there again, live or not."""

    def flow() -> tw.Dataflow:
        made = tw.Dataflow("numbers")
        (numbers,) = made.operator([], 1, counter, name="count")
        numbers.capture("counts")
        return made

    for _ in range(3):
        with begin(folder, flow()) as job:
            for _ in range(rounds):
                job.run_round()  # type: ignore[attr-defined]
            job.stop(snapshot=True)
    with begin(folder, flow()) as job:
        job.wait()
        assert counts(job) == Counter({(number, number): 2 for number in range(20)})


def collatz(name: str = "loop") -> tw.Dataflow:
    """Return a loop in which each number goes its way down to 1."""
    flow = tw.Dataflow(name)

    def body(numbers: Any) -> Any:
        moved = numbers.map(lambda pair: (pair[0], pair[1] // 2 if pair[1] % 2 == 0 else 3 * pair[1] + 1, pair[2] + 1))
        moved = moved.exchange(lambda pair: pair[1])
        return moved.filter(lambda pair: pair[1] != 1), moved.filter(lambda pair: pair[1] == 1)

    started = flow.input("numbers").map(lambda number: (number, number, 0))
    started.iterate(body).capture("counts")
    return flow


@pytest.mark.parametrize("rounds", [1, 7, 40])
def test_a_loop_goes_on_in_the_middle(rounds: int, folder: Path) -> None:
    """What circulates is saved where it is; the loop does not begin from the start."""
    numbers = [27, 97, 871, 6, 7]
    with tw.run(collatz(), workers=2, engine="local") as job:
        job.input("numbers").send(numbers)
        job.input("numbers").close()
        job.wait()
        expected = counts(job)
    with begin(folder, collatz()) as job:
        job.input("numbers").send(numbers)
        job.input("numbers").close()
        for _ in range(rounds):
            job.run_round()  # type: ignore[attr-defined]
        job.snapshot()
        done = counts(job)
        job.stop()
    assert len(done) < len(numbers)
    with begin(folder, collatz()) as job:
        job.wait()
        assert counts(job) == expected


def test_snapshots_are_taken_as_time_passes(folder: Path) -> None:
    """Without being asked for, at most so many seconds apart; old ones are removed."""
    with begin(folder, every_s=0.001, keep=2) as job:
        for time in range(50):
            job.input("words").advance_to(time)
            job.input("words").send(["a"])
            job.probe("done").wait_until(time)
        last = job.snapshot()
        assert last > 10
        job.stop()
    stored = SnapshotFolder(folder).stored_snapshots()
    assert [snapshot.manifest.number for snapshot in stored] == [last, last - 1]


def test_an_operator_that_keeps_many_tokens_by_key(folder: Path) -> None:
    """Those too that a snapshot does not write, as their keys have not changed."""

    def hold(context: tw.OperatorContext) -> Schedule:
        held = context.keyed_state("held")

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for token, batch in input:
                for number in batch:
                    if number in held:
                        with held.pop(number) as kept:
                            output.send(kept, [number])
                    else:
                        held[number] = token.retain()

        return schedule

    def flow() -> tw.Dataflow:
        made = tw.Dataflow("holding")
        made.input("numbers").unary(hold, exchange=lambda number: number, name="hold").capture("counts")
        return made

    with begin(folder, flow()) as job:
        numbers = job.input("numbers")
        numbers.send(list(range(12_000)))
        job.snapshot()
        numbers.advance_to(1)
        numbers.send([5, 12_001])
        job.snapshot()
        job.snapshot()
        job.stop()
    with begin(folder, flow()) as job:
        numbers = job.input("numbers")
        numbers.advance_to(2)
        numbers.send([number for number in range(12_000) if number != 5])
        numbers.send([12_001])
        numbers.close()
        job.wait()
        assert counts(job) == Counter({(0, number): 1 for number in range(12_000)} | {(1, 12_001): 1})


CRASHING = """
import sys
import tidewheel as tw
from tests.behaviour.runtime.test_snapshots import EPOCHS, begin, send_on
with begin(sys.argv[1], every_s=1000.0) as job:
    words = job.input("words")
    for until in range(words.position.batches + 1, len(EPOCHS) + 1):
        send_on(words, until=until)
        job.snapshot()
        print(until, flush=True)
    sys.stdin.read()
"""


def test_a_process_that_was_killed_is_gone_on_from(folder: Path) -> None:
    """With kill -9 after some snapshot: the next process need not wait, and begins with the last that is complete."""
    for until in ("2", "4"):
        with subprocess.Popen(
            [sys.executable, "-c", CRASHING, str(folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert any(line.strip() == until for line in iter(process.stdout.readline, ""))
            os.kill(process.pid, signal.SIGKILL)
    with begin(folder) as job:
        assert job.input("words").position.batches >= 4
        send_on(job.input("words"))
        job.input("words").close()
        job.wait()
        assert counts(job) == EXPECTED
