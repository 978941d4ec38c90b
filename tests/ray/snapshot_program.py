"""A program that keeps snapshots on Ray: it is killed and started again by tests, and goes on where it was."""

import sys
import threading
from dataclasses import dataclass
from typing import Any

import tidewheel as tw
from tidewheel.runtime.description.plan import Schedule

EPOCHS = 30


@dataclass(frozen=True)
class Word:
    """A key whose class is of the main program."""

    text: str


def running_total(context: tw.OperatorContext) -> Schedule:
    """Send each key with the number of its records so far; tokens and records wait in states."""
    counts = context.keyed_state("counts")
    waiting: dict[int, Any] = context.state("waiting", dict)

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            if lent.time not in waiting:
                waiting[lent.time] = (lent.retain(), [])
            waiting[lent.time][1].extend(batch)
        for time in sorted(time for time in waiting if not input.frontier.less_equal(time)):
            token, words = waiting.pop(time)
            with token:
                for word in words:
                    counts[word] = counts.get(word, 0) + 1
                output.send(token, [(word.text, counts[word]) for word in words])

    return schedule


def words_of(time: int) -> list[Word]:
    return [Word(f"{number % 7}") for number in range(time, time + 5)]


def counting() -> tw.Dataflow:
    flow = tw.Dataflow("counting")
    words = flow.input("words")
    words.unary(running_total, exchange=lambda word: word.text, name="count").probe("done").capture("counts")
    return flow


def say(*words: Any) -> None:
    """Write a line for the test that reads it."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def main(folder: str, every_s: float) -> None:
    """Send the epochs that are missing, one for each line that is read, and say what was counted."""
    with tw.run(counting(), workers=2, snapshots=tw.Snapshots(folder, every_s=every_s)) as job:
        words = job.input("words")
        say("begins at", words.position.batches)
        for time in range(words.position.batches, EPOCHS):
            words.advance_to(time)
            words.send(words_of(time))
            if every_s >= 1000 and time % 10 == 9:
                say("snapshot", job.snapshot(timeout_s=30))
                if time < EPOCHS - 1:
                    sys.stdin.readline()
            threading.Event().wait(0.03)  # so that snapshots are taken in between
        words.close()
        job.wait(timeout_s=30)
        say("counted", sorted((entry.time, *pair) for entry in job.captured("counts") for pair in entry.batch))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
