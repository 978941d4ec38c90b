"""The telemetry of jobs on Ray: for the driver, for other processes of the cluster, and when a worker is killed."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import ray

import tidewheel as tw
from tests.kit.telemetry.following import check_json, number_of, view_where
from tests.ray.leftovers import nothing_left
from tests.waiting import eventually
from tidewheel.pubsub.subscribers.telemetry_reader import TelemetryReader
from tidewheel.runtime.engines.ray_job import RayJob

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0


def counted(name: str) -> tw.Dataflow:
    flow = tw.Dataflow(name)
    flow.input("numbers").exchange(lambda n: n).stateful_map(
        lambda n: n % 7, start=int, step=lambda total, n: (total + n, n)
    ).probe("done")
    return flow


class Elsewhere:
    """Another process, in which no job runs."""

    def follow(self, job: str, views: int) -> list[dict[str, Any]]:
        """Return the documents of the first views of a job; of all, if it has ended before."""
        with TelemetryReader(job, timeout_s=DEADLINE_S) as reader:
            return [dict(view.document) for view, _ in zip(reader, range(views), strict=False)]


def names() -> list[str]:
    return [topic.name for topic in tw.topics()]


def test_another_process_follows_a_job_and_one_added_to_it() -> None:
    """The topic is there only once it was asked for; it ends with the job, and the last document says how."""
    with nothing_left():
        elsewhere: Any = ray.remote(Elsewhere).options(num_cpus=0, max_concurrency=4).remote()
        with tw.run(counted("seen"), workers=2) as job:
            added = job.add(counted("beside"))
            assert not [name for name in names() if name.startswith("tidewheel/telemetry")]
            first = ray.get(elsewhere.follow.remote(job.name, 2), timeout=DEADLINE_S)
            assert f"tidewheel/telemetry/{job.name}" in names()
            check_json(first[1])
            assert [worker["state"] for worker in first[1]["workers"].values()] == ["running", "running"]
            assert [worker["pid"] for worker in first[1]["workers"].values()] == job.pids  # type: ignore[attr-defined]
            [beside] = ray.get(elsewhere.follow.remote(added.name, 1), timeout=DEADLINE_S)
            assert (beside["job"]["name"], beside["job"]["host"]) == (added.name, job.name)
            following = elsewhere.follow.remote(job.name, 1000)
            with TelemetryReader(job.name) as here:
                job.input("numbers").send(list(range(100)))
                job.input("numbers").close()
                added.input("numbers").close()
                job.wait(DEADLINE_S)
                view_where(here, lambda document: document["probes"]["done"]["frontier"] == [])
        last = ray.get(following, timeout=DEADLINE_S)[-1]
        assert last["job"]["state"] == "complete"
        assert last["operators"][number_of(last, "stateful_map")]["records_in"] == 100
        ray.kill(elsewhere)


def test_a_killed_worker_is_told_within_two_seconds(tmp_path: Path) -> None:
    """The job goes back and on; then its counts begin again, and the end is told, too."""
    with tw.run(counted("killed"), workers=2, snapshots=tw.Snapshots(tmp_path)) as job:
        assert isinstance(job, RayJob)
        with TelemetryReader(job.name) as reader:
            job.input("numbers").send(list(range(10)))
            job.snapshot()
            next(reader)
            os.kill(job.pids[1], signal.SIGKILL)
            killed_at = time.time()
            seen = view_where(reader, goes_back).document
            assert seen["at"] - killed_at < 2.0
            document = view_where(reader, lambda document: document["job"]["returns"] == 1, DEADLINE_S).document
            texts = [event["text"] for event in document["log"].values()]
            assert any("gone back" in text for text in texts), texts
            view_where(reader, lambda document: document["workers"]["1"]["state"] == "running", DEADLINE_S)
            for handle in job.handles("numbers"):
                handle.close()
            job.wait(DEADLINE_S)
            job.stop()
            assert [view.document["job"]["state"] for view in reader][-1] == "complete"


def goes_back(document: Mapping[str, Any]) -> bool:
    return bool(document["job"]["state"] == "going back" or document["job"]["returns"])


def test_a_job_whose_worker_dies_for_good_says_so() -> None:
    """Without snapshots it fails; the topic ends with that."""
    job = tw.run(counted("fails"), workers=2)
    assert isinstance(job, RayJob)
    with TelemetryReader(job.name) as reader:
        next(reader)
        os.kill(job.pids[1], signal.SIGKILL)
        killed_at = time.time()
        last = [view.document for view in reader][-1]
        assert last["at"] - killed_at < 2.0
        assert last["job"]["state"] == "failed"
        assert "worker 1" in last["job"]["error"]
    job.stop()
    assert eventually(lambda: not [name for name in names() if name.endswith(job.name)])
