"""The request for the telemetry of a job on Ray, with stand-ins for the cluster."""

from typing import Any

import pytest
import ray

from tidewheel.pubsub.subscribers import asking
from tidewheel.pubsub.subscribers.asking import ask_for_telemetry

TOPIC = "tidewheel/telemetry/words-0badcafe"
WORKERS = ["tidewheel-sums-1-worker-0", "other", "tidewheel-words-0badcafe-worker-0", "tidewheel-sums-1-worker-1"]


def named(found: list[str]) -> Any:
    return lambda **_: [{"name": name, "namespace": "tidewheel"} for name in found]


@pytest.mark.parametrize(("runs_on", "asked"), [(WORKERS[2], [WORKERS[2]]), (WORKERS[0], [WORKERS[2], WORKERS[0]])])
def test_the_job_itself_is_asked_first(monkeypatch: pytest.MonkeyPatch, runs_on: str, asked: list[str]) -> None:
    """It may have been added to any other job; workers with other numbers do not tell their driver."""
    found: list[str] = []

    def wants(worker: str, job: str) -> bool:
        assert job == "words-0badcafe"
        found.append(worker)
        return worker == runs_on

    monkeypatch.setattr(ray.util, "list_named_actors", named(WORKERS))
    monkeypatch.setattr(ray, "get_actor", lambda name, namespace: name)
    monkeypatch.setattr(asking, "_wants", wants)
    assert ask_for_telemetry(TOPIC)
    assert found == asked


def test_a_job_that_has_just_ended_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its actor is in the list, and is gone."""

    def gone(name: str, namespace: str) -> None:
        raise ValueError(f"no actor {name!r}")

    monkeypatch.setattr(ray.util, "list_named_actors", named(WORKERS))
    monkeypatch.setattr(ray, "get_actor", gone)
    assert not ask_for_telemetry(TOPIC)


def test_a_cluster_that_does_not_answer_has_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subscriber asks again until its time is over, and is told by an error of this library."""

    def lost(**_: object) -> None:
        raise ray.exceptions.RaySystemError("the control store is gone")

    monkeypatch.setattr(ray.util, "list_named_actors", lost)
    assert not ask_for_telemetry(TOPIC)
