"""A program that waits for a local job, with progress in its terminal: run with ``-m``.

The source has an epoch of two records for each key that is pressed. At ``p`` it prints ``printed``, at ``f`` it fails,
and at ``e`` it ends.
"""

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator

import tidewheel as tw

KEYBOARD = 0


def _epochs() -> Iterator[tw.Fetched[str] | tw.Pause]:
    epoch = 0
    while True:
        if not select.select([KEYBOARD], [], [], 0.0)[0]:
            yield tw.Pause(0.05)
            continue
        key = os.read(KEYBOARD, 1).decode()
        if key == "f":
            raise ValueError("no more")
        if key == "e":
            return
        if key == "p":
            sys.stdout.write("printed\n")
        epoch += 1
        yield tw.Fetched(["tide", "wheel"], epoch, epoch)


def main() -> int:
    """Wait for the job; return the exit code."""
    tty.setcbreak(KEYBOARD, termios.TCSANOW)
    flow = tw.Dataflow("waits")
    flow.source("words", _Keys()).probe("done")
    with tw.run(flow, engine="local") as job:
        try:
            job.wait(progress=True)
        except tw.JobError:
            sys.stdout.write("failed\n")
            return 1
        except KeyboardInterrupt:
            sys.stdout.write("interrupted\n")
            job.stop()
            return 2
    sys.stdout.write("over\n")
    return 0


class _Keys(tw.Source[str]):
    says_epochs = True

    def partitions(self) -> list[str]:
        return ["keys"]

    def open(self, partition: str | int, position: object) -> Iterator[tw.Fetched[str] | tw.Pause]:
        return _epochs()


if __name__ == "__main__":
    sys.exit(main())
