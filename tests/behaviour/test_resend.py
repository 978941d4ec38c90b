"""`tidewheel resend`: the records of dead letters go to an inbox of a running job, each once."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

import tidewheel as tw
from tests.waiting import eventually
from tidewheel.__main__ import main
from tidewheel.console.resend import SAVED_WITHIN_S
from tidewheel.runtime.engines.job_by_name import InputByName
from tidewheel.testing import FakeBroker

TOPIC = "bad orders"
BAD = [5, 10, 5, "x", 15]
"""Two are equal, and each counts."""


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for no cluster on this machine, where somebody else's may run."""
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")


def refuse_fives(number: Any) -> Any:
    if number % 5 == 0:
        raise LookupError(f"{number} is a multiple of five")
    return number


@contextmanager
def failing(readers: int = 1) -> Iterator[tw.types.Job]:
    """Run a job that sets the bad ones aside, once so many read its letters."""
    flow = tw.Dataflow("first")
    letters = flow.dead_letters()
    flow.input("orders").map(refuse_fives, name="price", dead_letters=letters).ignore()
    letters.publish(TOPIC, wait_for=readers)
    with tw.run(flow, engine="local") as job:
        with job.input("orders") as orders:
            orders.send([*BAD, 7])
        yield job
        job.stop()


@contextmanager
def receiving(records: Any = None) -> Iterator[tw.types.Job]:
    """Run a job with an inbox."""
    flow = tw.Dataflow("second")
    flow.inbox("orders", records).capture("orders")
    with tw.run(flow, workers=2, engine="local") as job:
        yield job
        job.stop()


def received(job: tw.types.Job) -> Counter[Any]:
    return Counter(record for captured in job.captured("orders") for record in captured.batch)


def resend(job: tw.types.Job, *commands: list[str]) -> list[int]:
    """Run commands at the same time, while the receiving job goes on; return their exit codes."""
    codes: list[int] = []
    threads = [
        threading.Thread(target=lambda more=more: codes.append(main(["resend", TOPIC, "second", "orders", *more])))
        for more in commands
    ]
    for thread in threads:
        thread.start()

    def have_ended() -> bool:
        job.run_round()  # type: ignore[attr-defined]
        return len(codes) == len(commands)

    assert eventually(have_ended)
    for thread in threads:
        thread.join()
    return codes


def test_each_record_is_sent_again(capsys: pytest.CaptureFixture[str]) -> None:
    """Also records that are equal. A line says which, and the last one how many."""
    with failing(), receiving() as job:
        assert resend(job, []) == [0]
        assert received(job) == Counter(BAD)
    *lines, last = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(
        f"0\tprice\t{'TypeError' if record == 'x' else 'LookupError'}\t{record!r}" for record in BAD
    )
    assert last == f"5 letters sent to input 'orders' of job {job.name!r}"


def test_a_letter_that_is_sent_twice_counts_once() -> None:
    """As if the command had died before it acknowledged; here two of them read the topic."""
    with failing(readers=2), receiving() as job:
        assert resend(job, [], []) == [0, 0]
        assert received(job) == Counter(BAD)


def test_only_letters_that_meet_the_conditions_are_sent() -> None:
    """The conditions are those of `tail`."""
    with failing(), receiving(int) as job:
        assert resend(job, ["--where", "error==LookupError", "--where", '"record"!=10']) == [0]
        assert received(job) == Counter([5, 5, 15])


def test_a_dry_run_sends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """It prints what it would send."""
    with failing(), receiving() as job:
        assert resend(job, ["--dry-run", "--where", "error==TypeError"]) == [0]
        assert not received(job)
    assert capsys.readouterr().out.splitlines() == [
        "0\tprice\tTypeError\t'x'",
        f"1 letter would be sent to input 'orders' of job {job.name!r}",
    ]


def test_it_ends_when_no_letter_comes(capsys: pytest.CaptureFixture[str]) -> None:
    """The topic of a job that runs does not end."""
    flow = tw.Dataflow("first")
    letters = flow.dead_letters()
    flow.source("orders", FakeBroker(1).source(look_every_s=0.01)).map(refuse_fives, dead_letters=letters).ignore()
    letters.publish(TOPIC)
    with tw.run(flow, engine="local") as first, receiving() as job:
        assert resend(job, ["--idle", "0.05"]) == [0]
        first.stop()
    assert capsys.readouterr().out.startswith("0 letters sent")


def test_a_record_that_the_inbox_does_not_take_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """It names the letter, and says how to leave it out."""
    with failing(), receiving(int) as job:
        assert resend(job, ["--where", "error==TypeError"]) == [1]
    error = capsys.readouterr().err
    assert error.startswith("tidewheel: a letter of epoch 0 is not sent: ")
    assert "['x']" in error
    assert "--where where!=parse" in error


def test_what_are_no_letters_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Another topic was named."""
    flow = tw.Dataflow("first")
    flow.input("orders").publish(TOPIC, wait_for=1)
    with tw.run(flow, engine="local") as first, receiving() as job:
        with first.input("orders") as orders:
            orders.send([1])
        assert resend(job, []) == [1]
        first.stop()
    assert "has 1, which is no dead letter" in capsys.readouterr().err


def test_a_condition_that_fails_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """A letter has no such field."""
    with failing(), receiving() as job:
        assert resend(job, ["--where", "town==Brest"]) == [1]
    assert "--where: there is no field 'town'" in capsys.readouterr().err


def test_a_job_without_the_inbox_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Before any letter is read."""
    with failing(readers=0), receiving():
        assert main(["resend", TOPIC, "second", "others"]) == 1
    assert "has no inbox 'others'; it has ['orders']" in capsys.readouterr().err


@pytest.mark.parametrize("error", [tw.errors.WouldBlock("it is full"), TimeoutError("no worker")], ids=["full", "away"])
def test_a_job_that_reads_nothing_is_not_the_fault_of_a_letter(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command waits for it as for a snapshot; then its error does not say to leave letters out."""
    waits: list[Any] = []

    def send(_: object, __: object, **options: Any) -> None:
        waits.append(options["timeout_s"])
        raise error

    monkeypatch.setattr(InputByName, "send", send)
    with failing(), receiving() as job:
        assert resend(job, []) == [1]
    assert waits == [SAVED_WITHIN_S]
    said = capsys.readouterr().err
    assert str(error) in said
    assert "are not acknowledged" in said
    assert "--where" not in said


def test_a_record_writes_nothing_else_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """The repr of a table has its texts as they are; here one sets the title and begins a line of its own."""

    def refuse(table: pa.Table) -> pa.Table:
        raise ValueError

    flow = tw.Dataflow("first")
    letters = flow.dead_letters()
    flow.input("orders").map_batches(refuse, dead_letters=letters).ignore()
    letters.publish(TOPIC, wait_for=1)
    with tw.run(flow, engine="local") as first, receiving() as job:
        with first.input("orders") as orders:
            orders.send(pa.table({"item": ["tea\x1b]0;owned\x07\n9 letters sent"]}))
        assert resend(job, ["--dry-run"]) == [0]
        first.stop()
    line, last = capsys.readouterr().out.splitlines()
    assert line.replace("\t", "").isprintable()
    assert last.startswith("1 letter would be sent")
