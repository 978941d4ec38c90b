"""A subscriber that may be killed at any moment: ``python -m tests.ray.topics.durable_program TOPIC NAME ORDER FILE``.

It connects to the cluster that RAY_ADDRESS names. With an empty NAME its subscription is not durable.
It appends to FILE, with fsync, a line of JSON for each epoch
(ORDER ``publisher``), or for each batch as ``[partition, number, time, records]`` (``total``); what is there already it
leaves out. Only then is it acknowledged. The last line is ``"end"``, or an object that has the error.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import tidewheel as tw

DEADLINE_S = 60.0


def lines(path: Path) -> list[Any]:
    """Return what is in a file, but for a last line that is torn; that is cut off."""
    path.touch()
    with path.open("rb+") as file:
        content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        file.truncate(len(whole))
    return [json.loads(line) for line in whole.splitlines()]


def append(file: IO[str], line: object) -> None:
    """Add a line that is on the disk when this returns."""
    file.write(json.dumps(line) + "\n")
    file.flush()
    os.fsync(file.fileno())


def found(subscription: tw.types.Subscription, order: str) -> Iterator[tuple[Any, list[Any]]]:
    """Yield what is to be acknowledged, and its line."""
    if order == "publisher":
        for epoch in subscription.epochs(timeout_s=DEADLINE_S):
            yield epoch, [epoch.time, sorted(epoch.records)]
        return
    for event in subscription:
        if isinstance(event, tw.types.Batch):
            yield event, [event.partition, event.number, event.time, event.records]


def main() -> None:
    """Read a topic to its end."""
    topic, name, order, path = sys.argv[1:]
    known = lines(Path(path))
    with Path(path).open("a", encoding="utf-8") as file:
        try:
            subscription = tw.subscribe(
                topic,
                timeout_s=DEADLINE_S,
                durable=tw.Durable(name, ack="manual") if name else None,
                start="earliest",
                order="total" if order == "total" else "publisher",
            )
            with subscription:
                for done, line in found(subscription, order):
                    if line not in known:
                        append(file, line)
                    if name:
                        subscription.acknowledge(done)
        except tw.TidewheelError as error:
            append(file, {"error": f"{type(error).__name__}: {error}"})
            raise
        if "end" not in known:
            append(file, "end")


if __name__ == "__main__":
    main()
