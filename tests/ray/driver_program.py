"""A program that drives a job, to be interrupted or killed from outside: ``python -m tests.ray.driver_program WHAT``.

It connects to the cluster that RAY_ADDRESS names. WHAT is ``wait`` (for the end of a job that has none), ``send``
(epochs without end), ``build`` (a job of which one worker never comes up) or ``end`` (while the job runs). Then comes
the name of the topic. It says ``running`` once its job runs, and stops the job when there is a line to read.
"""

import signal
import sys
import threading
from typing import Any

import tidewheel as tw

WORKERS = 2


def rounds(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
    """Halve each number until it is odd, on another worker each time."""
    moved = numbers.exchange(lambda n: n)
    return moved.filter(lambda n: n % 2 == 0).map(lambda n: n // 2), moved.filter(lambda n: n % 2 == 1)


def halving(topic: str) -> tw.Dataflow:
    """Describe a loop with an exchange, a topic and a probe ``"done"``, fed by an input ``"numbers"``."""
    flow = tw.Dataflow("halving")
    flow.input("numbers").iterate(rounds).exchange(lambda n: n).publish(topic).probe("done")
    return flow


def send_epoch(job: tw.types.Job, epoch: int) -> None:
    """Send one small epoch that goes round the loop several times."""
    job.input("numbers").send([epoch * 16 + n for n in range(1, 17)])
    job.input("numbers").advance_to(epoch + 1)


def send_epochs(job: tw.types.Job, until: threading.Event, begun: threading.Event | None = None) -> None:
    """Send epochs until the event, never more than 20 ahead of the probe."""
    epoch = 0
    while not until.is_set():
        send_epoch(job, epoch)
        epoch += 1
        job.probe("done").wait_until(max(0, epoch - 20))
        if begun is not None:
            begun.set()


def build_never(context: tw.OperatorContext) -> Any:
    """Hold one worker up for as long as its process lives."""
    if context.worker == 1:
        threading.Event().wait()
    return lambda input, output: [output.send(lent, batch) for lent, batch in input]


def main() -> None:
    """Do what the command line says."""
    what, topic = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
    flow = halving(topic)
    if what == "build":
        flow.input("more").unary(build_never, name="never")
    if what == "end":
        send_epoch(tw.run(flow, workers=WORKERS), 0)
        say("running")
        return
    stop = threading.Event()
    with tw.run(flow, workers=WORKERS) as job:
        threading.Thread(target=wait_for_line, args=[stop], daemon=True).start()
        if what == "wait":
            send_epoch(job, 0)
            say("running")
            job.wait()
        else:
            begun = threading.Event()
            threading.Thread(target=say_when, args=[begun], daemon=True).start()
            send_epochs(job, stop, begun)


def wait_for_line(stop: threading.Event) -> None:
    """Set the event when there is a line to read."""
    if sys.stdin.readline():
        stop.set()


def say_when(begun: threading.Event) -> None:
    """Say that the job runs when it does."""
    begun.wait()
    say("running")


def say(word: str) -> None:
    """Tell whoever started this."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
