"""QueueSource on Ray actors: a queue that processes share."""

import os
import queue
import signal
from pathlib import Path
from typing import Any

import pytest
from ray.util.queue import Queue

import tidewheel as tw
from tests.kit.docs.pages import blocks
from tests.links.link_kind import Task
from tests.packaging.repository import ROOT
from tests.ray.leftovers import nothing_left
from tidewheel.runtime.engines.ray_job import RayJob

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0


def test_a_queue_in_an_actor_feeds_a_job() -> None:
    """What is put in comes out, at epochs that are complete at once; its own queue cannot leave this process."""
    queue = Queue(actor_options={"num_cpus": 0})
    source: tw.QueueSource[int] = tw.QueueSource(queue, poll_s=0.01)
    flow = tw.Dataflow("queue")
    flow.source("numbers", source).rebalance().probe("read").capture("numbers")
    with tw.run(flow, workers=2) as job:
        for number in range(3):
            source.put(number)
            job.probe("read").wait_until(number + 1, DEADLINE_S)
        source.close()
        job.wait(DEADLINE_S)
        assert sorted(n for entry in job.captured("numbers") for n in entry.batch) == [0, 1, 2]
    queue.shutdown()
    own: tw.QueueSource[Any] = tw.QueueSource()
    flow = tw.Dataflow("own")
    flow.source("numbers", own)
    with pytest.raises(tw.GraphError, match=r"'numbers' cannot be pickled.* such as ray.util.queue.Queue\(\)"):
        tw.run(flow, workers=1)


def feed_from(job: tw.types.Job, records: "queue.Queue[Any]") -> None:
    """Do what the page on snapshots shows."""
    page = (ROOT / "docs/how-to/snapshots.md").read_text(encoding="utf-8")
    [shown] = ["\n".join(block.lines) for block in blocks(page) if "def feed_from" in "\n".join(block.lines)]
    names: dict[str, Any] = {"tw": tw}
    exec(shown.partition("\nrecords = ")[0], names)
    names["feed_from"](job, records)


def test_a_queue_that_the_driver_reads_misses_nothing(tmp_path: Path) -> None:
    """Worker 0 dies after the snapshot: what the driver had sent since is sent again, and nothing comes twice."""
    flow = tw.Dataflow("queue")
    flow.input("words").rebalance().probe("read").capture("words")
    words: queue.Queue[Any] = queue.Queue()
    with nothing_left(), tw.run(flow, workers=2, snapshots=tw.Snapshots(tmp_path, every_s=1000.0)) as job:
        assert isinstance(job, RayJob)
        feeding = Task(lambda: feed_from(job, words))
        for number in range(20):
            words.put(number)
            job.probe("read").wait_until(number + 1, DEADLINE_S)
            if number == 9:
                job.snapshot()
        os.kill(job.pids[0], signal.SIGKILL)
        for number in (*range(20, 30), None):
            words.put(number)
        feeding.join(DEADLINE_S)
        assert sorted(n for entry in job.captured("words") for n in entry.batch) == list(range(30))
