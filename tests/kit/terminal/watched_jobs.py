"""``tidewheel top`` on documents made by hand: run with ``-m``, in a terminal."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.kit.telemetry.documents import BEGAN_AT, document, operator, views, worker
from tidewheel.console.terminal.command import watch
from tidewheel.pubsub.subscribers.view import View


@dataclass(frozen=True, slots=True)
class Listed:
    """A job in the list of jobs."""

    name: str
    state: str = "running"
    workers: int = 1
    probes: str = ""


def stuck_views(job: str) -> list[View]:
    """Return two views of a job that has three operators, one of which holds back a probe."""

    def at(second: int) -> dict[str, object]:
        return document(
            name=job,
            at=BEGAN_AT + second,
            operators={
                "0": operator("input lines", kind="input", records_out=1000 * second, frontier=["9"]),
                "1": operator("split", records_in=1000 * second, records_out=12_500 * second, seconds=0.4 * second),
                "2": operator("keeps", records_in=12_500 * second, frontier=["4"], queue=7, leaks=1),
            },
            workers={"0": worker(steps=100 * second, cpu_seconds=0.5 * second)},
            probes={
                "done": {"operator": "2", "frontier": ["4"], "explanation": "'done' waits\n1. operator 'keeps' holds"}
            },
        )

    return views(at(0), at(1))


class ByHand:
    """A reader of views made by hand, which waits behind the last one until it is closed."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[View]:
        yield from stuck_views(self._job)
        self._closed.wait()

    def close(self) -> None:
        """End the iteration."""
        self._closed.set()


def _jobs() -> Sequence[Listed]:
    return [Listed("words-1"), Listed("sums-2", "paused")]


if __name__ == "__main__":
    watch(_jobs, ByHand)
