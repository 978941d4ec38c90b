"""A publisher on a real Ray cluster that has no room on its disk for a while."""

import errno
import os
import threading
from contextlib import suppress
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
            job.wait(timeout_s=0.1)
        ray.get(publisher.__ray_call__.remote(make_room), timeout=DEADLINE_S)
        assert read(subscription, 2) == expected(range(2, 4))
        job.wait(timeout_s=DEADLINE_S)


ROOM = 100 << 20
READ_S = 25.0
MEGABYTE = 1 << 20


def limit_disk(actor: Any, folder: str) -> None:
    """Have a folder take `ROOM` bytes and no more; run in the publisher's process."""
    files = actor._durable.core.log._writer._files
    write = files.write

    def size(path: Path) -> int:
        with suppress(FileNotFoundError):
            return path.stat().st_size
        return 0

    def free_bytes(_: Path) -> int:
        return ROOM - sum(map(size, Path(folder).rglob("*")))

    def limited(descriptor: int, parts: Any, offset: int) -> int:
        if sum(map(len, parts)) > free_bytes(Path(folder)):
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(write(descriptor, parts, offset))

    files.write, files.free_bytes = limited, free_bytes


def test_a_disk_that_a_topic_has_filled_has_room_again_once_it_is_read(tmp_path: Path) -> None:
    """At once, also if the job has just begun: the files go that its reader has acknowledged."""
    import ray

    topic, epochs = "fills its disk", 200
    flow = tw.Dataflow("disk")
    flow.input("records").exchange(lambda record: record[0]).publish(topic, log=tw.Log(str(tmp_path)))
    record = os.urandom(MEGABYTE)
    with tw.run(flow, workers=2, config=tw.RuntimeConfig(bytes_in_flight=4 * MEGABYTE)) as job:
        tw.subscribe(topic, durable=tw.Durable("reader"), start="earliest").close()
        for publisher in publishers(topic):
            ray.get(publisher.__ray_call__.remote(limit_disk, str(tmp_path)), timeout=DEADLINE_S)

        def feed() -> None:
            with job.input("records") as records:
                for epoch in range(epochs):
                    records.send([(epoch, record)])
                    records.advance_to(epoch + 1)

        feeder = threading.Thread(target=feed)
        feeder.start()
        assert eventually(lambda: "is full" in str(job.topic(topic).problem), DEADLINE_S)
        with tw.subscribe(topic, durable=tw.Durable("reader"), start="earliest") as subscription:
            assert [epoch.time for epoch in subscription.epochs(timeout_s=READ_S)] == list(range(epochs))
        feeder.join(DEADLINE_S)
        job.wait(timeout_s=DEADLINE_S)
