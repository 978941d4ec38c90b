"""The word counts of the example against a Counter."""

from collections import Counter

import pytest

import tidewheel as tw
from examples.first_steps import word_count
from tests.examples.running import captured, epochs, records

TEXTS = [["To be, or not", "to be."], ["That is the question:"], [], ["Whether 'tis nobler in the mind", "to be"]]


@pytest.mark.parametrize("workers", [1, 2])
def test_totals_follow_the_text(workers: int) -> None:
    """After each epoch the words in it have the count of all text up to then, and no other word comes out."""
    found = captured(lambda flow: word_count.totals(flow.source("lines", epochs(TEXTS))), workers)
    counter: Counter[str] = Counter()
    for epoch, lines in enumerate(TEXTS):
        letters = "".join(letter if letter.isalpha() else " " for letter in " ".join(lines).lower())
        counter.update(letters.split())
        expected = {word: counter[word] for word in letters.split()}
        totals = records(found.get(epoch, []))
        assert dict(totals) == expected
        assert len(totals) == len(expected)


def test_the_source_splits_each_epoch() -> None:
    """What the tests of examples read comes from two partitions."""
    flow = tw.Dataflow("two")
    flow.source("numbers", epochs([[1, 2, 3], [4]])).capture("numbers")
    with tw.run(flow, workers=2, engine="local") as job:
        job.wait(timeout_s=60)
        assert sorted((one.time, one.batch) for one in job.captured("numbers")) == [(0, [1]), (0, [2, 3]), (1, [4])]
