"""A subscriber in a process of its own: it writes each epoch that it sees as a line of JSON, and at the end "end"."""

import json
import sys
from typing import Any

import tidewheel as tw


def main(topic: str, name: str) -> None:
    """Read a topic to its end, with a name by a durable subscription that begins with what the log has."""
    durable: dict[str, Any] = {"durable": tw.Durable(name), "start": "earliest"} if name else {}
    with tw.subscribe(topic, timeout_s=60, **durable) as epochs:
        for epoch in epochs.epochs(timeout_s=60):
            print(json.dumps([epoch.time, sorted(epoch.records)]))  # noqa: T201 - the test reads that
    print("end")  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:3])
