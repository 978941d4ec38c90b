"""The path of a record from the driver to a subscriber: the processes that pickle it on the way."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
RECORDS = 8


class Marked:
    """A record that notes in a file which process pickles it."""

    def __init__(self, number: int, notes: str) -> None:
        self.number, self.notes = number, notes

    def __reduce__(self) -> tuple[Any, ...]:
        with Path(self.notes).open("a", encoding="utf-8") as file:
            file.write(f"{self.number} {os.getpid()}\n")
        return Marked, (self.number, self.notes)


def number_of(record: Marked) -> int:
    return record.number


def test_each_process_that_a_record_leaves_pickles_it_once(tmp_path: Path) -> None:
    """The driver, the worker that has the input, the one behind the exchange; not the publisher, nor the subscriber."""
    notes = tmp_path / "notes"
    flow = tw.Dataflow("path of a record")
    flow.input("records").exchange(number_of).publish("path of a record")
    with tw.run(flow, workers=2) as job, tw.subscribe("path of a record") as subscription:
        with job.input("records") as handle:
            for number in range(RECORDS):
                handle.send([Marked(number, str(notes))])
        epochs = list(subscription.epochs(timeout_s=DEADLINE_S))
        job.wait(DEADLINE_S)
    assert sorted(record.number for epoch in epochs for record in epoch.records) == list(range(RECORDS))
    pickled = Counter(tuple(map(int, line.split())) for line in notes.read_text(encoding="utf-8").splitlines())
    assert set(pickled.values()) == {1}
    left = Counter(number for number, _ in pickled)
    assert set(left) == set(range(RECORDS))
    assert set(left.values()) == {2, 3}  # the exchange leaves some on their worker, and sends others to its peer
    assert all(pickled[number, os.getpid()] == 1 for number in range(RECORDS))
