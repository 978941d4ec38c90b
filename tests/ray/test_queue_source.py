"""QueueSource on Ray actors: a queue that processes share."""

from typing import Any

import pytest
from ray.util.queue import Queue

import tidewheel as tw

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
