"""Operators that print and log: ``python -m tests.ray.talk_program [LEVEL]``. It ends when there is a line to read.

LEVEL is that of the logger ``tidewheel``.
"""

import logging
import sys

import tidewheel as tw


def talk(number: int) -> int:
    """Say what came, in four ways."""
    sys.stdout.write(f"got {number}\nand {number + 100}\n")
    sys.stderr.write(f"saw {number}\n")
    logging.getLogger("talk").warning("logged %d", number)
    return number


def main() -> None:
    if sys.argv[1:]:
        logging.getLogger("tidewheel").setLevel(sys.argv[1])
    flow = tw.Dataflow("talk")
    flow.input("numbers").exchange(lambda n: n).map(talk).probe("done")
    with tw.run(flow, workers=2) as job:
        job.input("numbers").send([1, 2, 3, 4])
        job.input("numbers").close()
        job.wait(timeout_s=60)
        sys.stdin.readline()


if __name__ == "__main__":
    main()
