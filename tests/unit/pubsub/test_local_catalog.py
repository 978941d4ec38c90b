"""The catalog of one process."""

import pytest

from tests.unit.pubsub.local_job import LocalJob, send_end
from tidewheel.pubsub import DeliveryError
from tidewheel.pubsub.local_catalog import LOCAL_CATALOG


def test_a_topic_is_there_while_its_job_runs() -> None:
    """Starting registers it, finishing retracts it."""
    running = LocalJob().publish("catalog/a")
    assert "catalog/a" in LOCAL_CATALOG.names()
    assert LOCAL_CATALOG.lookup("catalog/a") is not None
    running.finish(None, 1.0)
    assert LOCAL_CATALOG.lookup("catalog/a") is None


def test_a_running_job_keeps_its_name_and_an_ended_one_does_not() -> None:
    """A name is free again once the topic has ended, though nobody has retracted it; a late retraction hits nobody."""
    old = LocalJob("old").publish("catalog/b")
    with pytest.raises(DeliveryError, match="'catalog/b' is published by job 'old' already"):
        LocalJob("new").publish("catalog/b")
    send_end(old, 0)
    new = LocalJob("new").publish("catalog/b")
    old.finish(None, 1.0)
    info = LOCAL_CATALOG.lookup("catalog/b")
    assert info is not None
    assert info.job == "new"
    new.finish(None, 1.0)
