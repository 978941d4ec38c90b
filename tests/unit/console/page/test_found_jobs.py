"""The names of the jobs that a page can show."""

import pytest

import tidewheel as tw
from tidewheel.console.page import found_jobs
from tidewheel.console.page.found_jobs import own_jobs
from tidewheel.pubsub.errors import NoCluster


def _no_cluster(failure: type[NoCluster]) -> None:
    raise failure("there is no cluster")


def test_the_jobs_of_this_process_are_found_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there is no cluster."""
    monkeypatch.setattr(found_jobs, "connect_to_running", _no_cluster)
    flow = tw.Dataflow("found")
    flow.input("words").capture("words")
    with tw.run(flow, engine="local") as job:
        assert job.name in own_jobs()
        assert job.name in found_jobs.found_jobs()
        job.stop()
    assert job.name not in own_jobs()


def test_without_a_job_and_a_cluster_an_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page shows it."""
    monkeypatch.setattr(found_jobs, "connect_to_running", _no_cluster)
    monkeypatch.setattr(found_jobs, "own_jobs", list)
    with pytest.raises(NoCluster, match="there is no cluster"):
        found_jobs.found_jobs()
