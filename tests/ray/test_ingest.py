"""``tidewheel serve --ingest``: repeated requests count once, though workers, the gateway and the job end meanwhile."""

import os
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

import tidewheel as tw
from tests.ray.leftovers import nothing_left
from tests.ray.serving import Serving, serving
from tests.ray.test_inboxes import describe, received
from tests.waiting import eventually
from tidewheel.runtime.engines.ray_job import RayJob

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
PATH = "/jobs/fraud/inputs/payments"


def post_until_saved(gateway: Callable[[], Serving], number: int) -> int:
    """Post a number with its key until a snapshot has it; return how often."""
    for times in range(1, 1000):
        try:
            if gateway().post(PATH, str(number), idempotency_key=str(number), prefer="wait=20") == 200:
                return times
        except OSError:  # the gateway is gone
            continue
    raise AssertionError(f"{number} was never saved")


def run(folder: Path, workers: int) -> tw.types.Job:
    return tw.run(describe(int), workers=workers, snapshots=tw.Snapshots(folder, every_s=0.3))


def test_repeated_requests_count_once(ray_cluster: str, tmp_path: Path) -> None:
    """Over the death of a worker and of the gateway, and in another run of the job with more workers."""
    numbers = range(40)
    with serving(ray_cluster, "--ingest", "fraud") as first, serving(ray_cluster, "--ingest", "fraud") as second:
        present = [first]
        with nothing_left(), run(tmp_path, 2) as job, ThreadPoolExecutor(8) as pool:
            assert isinstance(job, RayJob)
            assert first.post(PATH, "1", authorization="Bearer wrong") == 401
            assert first.post(PATH, "1", origin="http://evil.example") == 403
            assert first.post(PATH, '1\n"x"') == 400
            posts = [pool.submit(post_until_saved, lambda: present[0], number) for number in numbers]
            assert eventually(lambda: sum(post.done() for post in posts) >= 8, DEADLINE_S)
            os.kill(Random(5).choice(job.pids), signal.SIGKILL)
            assert eventually(lambda: sum(post.done() for post in posts) >= 20, DEADLINE_S)
            present[0] = second
            first.process.kill(signal.SIGKILL)
            assert sum(post.result(DEADLINE_S) for post in posts) > len(numbers), "some were posted again"
            assert eventually(lambda: received(job) == Counter(numbers), DEADLINE_S)
            job.stop(snapshot=True)
        assert second.post(PATH, "1") == 503, "no job runs now"
        with nothing_left(), run(tmp_path, 3) as job:
            for number in numbers:
                assert second.post(PATH, str(number), idempotency_key=str(number)) == 202
            assert second.post(PATH, "1000", prefer="wait=20") == 200
            assert eventually(lambda: received(job)[1000] == 1, DEADLINE_S)
            assert received(job) == Counter([*numbers, 1000])
            job.stop()
