"""Secrets on Ray: each worker reads its own environment, and no error of its has a value."""

import os
import traceback
from typing import Any

import pytest

import tidewheel as tw

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

SECRET = tw.Secret("PATH")
"""Whatever it is called, a variable that all processes of the cluster have."""


class Careless(tw.Sink):
    """Fails with an error that quotes all that it knows."""

    def __init__(self) -> None:
        self.secret = SECRET

    def commit(self, epoch: Any, parts: list[Any]) -> None:
        raise ValueError(f"no login with {self.secret.value()} at postgres://me:hunter2@host")

    def last_committed(self) -> None:
        assert os.pathsep in self.secret.value()


def test_the_error_of_a_worker_has_no_value() -> None:
    """Neither in its text, nor in what Python prints of it in the driver."""
    flow = tw.Dataflow("careless")
    flow.source("n", tw.RecordSource([1, 2])).sink(Careless())
    with pytest.raises(tw.JobError) as caught, tw.run(flow, workers=2) as job:
        job.wait(timeout_s=60)
    printed = "".join(traceback.format_exception(caught.value))
    assert "no login with Secret('PATH') at postgres://***@host" in printed
    assert os.environ["PATH"] not in printed
    assert "hunter2@" not in printed
