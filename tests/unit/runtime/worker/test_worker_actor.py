"""The process of a worker: it waits for the one before it, and says who writes and logs in it."""

import io
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tidewheel.host.log_lines import LogFormat, LogSettings
from tidewheel.host.program_classes import CLASSES
from tidewheel.runtime.messages.worker_report import BusyWorker
from tidewheel.runtime.snapshots.this_process import is_gone, process_of, this_process
from tidewheel.runtime.worker import worker_actor
from tidewheel.runtime.worker.worker_actor import WorkerActor


def test_a_process_waits_until_the_one_before_it_has_ended() -> None:
    """Ray calls an actor dead before its process has ended, which could go on to publish."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        before = process_of(child.pid)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(WorkerActor.process, None, before)  # type: ignore[arg-type]
            try:
                assert not is_gone(before)
                assert not waiting.done()
            finally:
                child.kill()
            assert waiting.result(30.0) == this_process()
        assert is_gone(before)


class _Loops(WorkerActor):
    """A worker that runs one dataflow, as far as requests for telemetry are concerned."""

    def __init__(self) -> None:
        self._loops = {"job": None}  # type: ignore[dict-item]
        self._wanted: set[str] = set()
        self._is_wanted = threading.Event()


def test_the_call_that_watches_a_worker_returns_when_telemetry_is_wanted() -> None:
    """At once, with the job, and only once; the call that only looks whether the worker lives takes nothing away."""
    actor = _Loops()
    assert actor.live(0.01) == ()
    assert not actor.want_telemetry("another")
    with ThreadPoolExecutor() as pool:
        watching = pool.submit(actor.live, 30.0)
        assert actor.live(0.0) == ()
        assert actor.want_telemetry("job")
        assert watching.result(10) == ("job",)
    assert actor.live(0.01) == ()


class Loop:
    """Stands for the loop of a dataflow, whose operator runs on the thread that has made it."""

    def __init__(self, operator: str | None) -> None:
        self._running = BusyWorker(1, operator)
        self._thread = threading.get_ident()

    def here(self) -> BusyWorker | None:
        return self._running if threading.get_ident() == self._thread else None


@contextmanager
def process_of_its_own() -> Iterator[io.StringIO]:
    """Give a standard error of its own, and take back what a worker does to this process."""
    written, root, ours = io.StringIO(), logging.getLogger(), logging.getLogger("tidewheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", written)
        patch.setattr(sys, "stdout", sys.stdout)
        patch.setattr(root, "handlers", [])
        patch.setattr(root, "propagate", root.propagate)
        patch.setattr(ours, "level", ours.level)
        for change in ("keep_freed_memory", "collect_rarely"):
            patch.setattr(worker_actor, change, lambda: None)
        patch.setattr(CLASSES, "is_worker", False)
        yield written
    ours.setLevel(ours.level)  # which forgets the levels that Python has looked up meanwhile


def actor(log_format: LogFormat, **loops: Any) -> WorkerActor:
    """Make worker 1 of 2 of a job, where these dataflows run."""
    made = WorkerActor(1, 2, 5, "sums-d24a72a9", LogSettings(logging.INFO, log_format))
    made._loops.update(loops)
    return made


def test_a_thread_without_operator_names_the_job_of_the_worker() -> None:
    """Ray's calls run on threads of their own, and an operator may run meanwhile."""
    with process_of_its_own() as written:
        actor("json", **{"added-01234567": Loop("map")})
        thread = threading.Thread(target=logging.getLogger("tidewheel.x").info, args=["elsewhere"])
        thread.start()
        thread.join()
    line = json.loads(written.getvalue())
    assert (line["job"], line["worker"], "operator" in line) == ("sums-d24a72a9", 1, False)


def test_an_operator_that_logs_is_named() -> None:
    """In lines of JSON by fields, which have no label before them."""
    with process_of_its_own() as written:
        actor("json", **{"added-01234567": Loop("map")})
        logging.getLogger("my.program").warning("number %d is negative", -2)
    line = json.loads(written.getvalue())
    found = {name: line[name] for name in ("message", "job", "operator", "worker")}
    assert found == {"message": "number -2 is negative", "job": "added-01234567", "operator": "map", "worker": 1}


def test_text_has_the_label_of_the_operator() -> None:
    """As before each line that it prints."""
    with process_of_its_own() as written:
        actor("text", **{"added-01234567": Loop("map")})
        logging.getLogger("tidewheel.x").info("careful")
    assert written.getvalue() == "[map] INFO tidewheel.x: careful\n"


def test_the_dashboard_of_ray_shows_dataflow_worker_and_operators() -> None:
    """Ray takes this text for the name of the actor, once it is made."""
    with process_of_its_own():
        assert repr(actor("text")) == "sums worker 1 of 2, 5 operators"
