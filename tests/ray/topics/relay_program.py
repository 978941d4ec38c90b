"""A program that publishes a topic, or reads one: ``python -m tests.ray.topics.relay_program WHAT TOPIC EPOCHS``.

It connects to the cluster that RAY_ADDRESS names. WHAT is ``produce`` or ``consume``. The producer waits for a
subscriber, says ``sent`` after half of the epochs, and goes on when there is a line to read; the consumer says ``read``
once it has read the first epoch, and prints as JSON the sum of each epoch in the end, or its error.
"""

import json
import sys

import tidewheel as tw

RECORDS = 100
DEADLINE_S = 60.0


def say(line: str) -> None:
    """Write a line to the output, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def produce(topic: str, epochs: int) -> None:
    """Publish epochs of numbers from two workers."""
    flow = tw.Dataflow("producer")
    flow.input("numbers").exchange(lambda n: n).publish(topic).probe("sent")
    with tw.run(flow, workers=2) as job:
        job.topic(topic).wait_for_subscribers(1, timeout_s=DEADLINE_S)
        with job.input("numbers") as numbers:
            for epoch in range(epochs):
                numbers.send([epoch * RECORDS + n for n in range(RECORDS)])
                numbers.advance_to(epoch + 1)
                if epoch == epochs // 2:
                    job.probe("sent").wait_until(epoch + 1, timeout_s=DEADLINE_S)
                    say("sent")
                    sys.stdin.readline()
        job.wait(timeout_s=DEADLINE_S)
    say("done")


def consume(topic: str, _epochs: int) -> None:
    """Sum each epoch of a topic, on two workers."""
    flow = tw.Dataflow("consumer")
    numbers = flow.from_topic(topic, timeout_s=DEADLINE_S)
    numbers.probe("read")
    numbers.rebalance().for_each_epoch(lambda time, records: (time, sum(records))).capture("sums")
    with tw.run(flow, workers=2) as job:
        frontiers = job.probe("read").advances(timeout_s=DEADLINE_S)
        first = next(frontiers)
        while first == next(frontiers):
            pass
        say("read")
        job.wait(timeout_s=DEADLINE_S)
        say(json.dumps([pair for captured in job.captured("sums") for pair in captured.batch]))


def main() -> None:
    """Do what the command line says."""
    what, topic, epochs = sys.argv[1:]
    {"produce": produce, "consume": consume}[what](topic, int(epochs))


if __name__ == "__main__":
    main()
