"""A publisher on a real Ray cluster that has no room on its disk for a while."""

import errno
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.ray.topics.test_exactly_once import DEADLINE_S, expected, publishers, publishing, read, send
from tests.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]


def fill_disk(actor: Any) -> None:
    """Have nothing fit on the disk any more; run in the publisher's process."""

    def write(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    actor._durable.core.log._writer._files.write = write


def make_room(actor: Any) -> None:
    """Undo `fill_disk`."""
    del actor._durable.core.log._writer._files.write


def test_who_waits_for_the_job_is_told(tmp_path: Path) -> None:
    """Which topic and partition it is, and why; when there is room the job goes on, and nothing is lost."""
    import ray

    topic = "on a full disk"
    with publishing(topic, tmp_path, workers=1) as job, tw.subscribe(topic) as subscription:
        (publisher,) = publishers(topic)
        with job.input("numbers") as numbers:
            send(numbers, range(2))
            assert read(subscription, 2) == expected(range(2))
            ray.get(publisher.__ray_call__.remote(fill_disk), timeout=DEADLINE_S)
            send(numbers, range(2, 4))
        assert eventually(lambda: "partition 0: " in str(job.explain("published")), DEADLINE_S)
        with pytest.raises(
            TimeoutError, match=r"topic 'on a full disk': partition 0: the log in .* is full .*; all inputs are closed"
        ):
            job.wait(timeout=0.1)
        ray.get(publisher.__ray_call__.remote(make_room), timeout=DEADLINE_S)
        assert read(subscription, 2) == expected(range(2, 4))
        job.wait(timeout=DEADLINE_S)
