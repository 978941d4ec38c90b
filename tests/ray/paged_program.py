"""A program with nested loops, for the page of another process: ``python -m tests.ray.paged_program NAME``.

It connects to the cluster that RAY_ADDRESS names, and feeds the dataflow NAME: slowly until there is a line to read,
then faster until there is another. It says ``running`` once its job runs. Each worker warns of its first record.
"""

import logging
import sys
import threading
from typing import Any

import tidewheel as tw
from tests.browser.nested import nested
from tests.ray.driver_program import say, wait_for_line

WORKERS = 2
SLOW, FAST = 3, 300
"""The records of an epoch."""


def warned(dataflow: str) -> tw.Dataflow:
    """Describe the dataflow, with an operator that warns."""
    flow = tw.Dataflow(dataflow)
    said: list[Any] = []

    def warn(pair: Any) -> Any:
        if not said:
            said.append(pair)
            logging.getLogger("my.program").warning("the first pair is %s, secret_key=abc", pair)
        return pair

    nested(flow=flow, stream=flow.input("pairs").exchange(lambda pair: pair[0]).map(warn, name="warn"), keeps=False)
    return flow


def main() -> None:
    """Feed the job until it is told to end."""
    stop, faster = threading.Event(), threading.Event()
    with tw.run(warned(sys.argv[1]), workers=WORKERS) as job:
        threading.Thread(target=_listen, args=[faster, stop], daemon=True).start()
        say("running")
        epoch = 0
        with job.input("pairs") as pairs:
            while not stop.wait(0.05):
                pairs.send([(3 + n % 4, 9) for n in range(FAST if faster.is_set() else SLOW)])
                epoch += 1
                pairs.advance_to(epoch)
                job.probe("done").wait_until(max(0, epoch - 20))
        job.wait(60.0)


def _listen(*events: threading.Event) -> None:
    for event in events:
        wait_for_line(event)


if __name__ == "__main__":
    main()
