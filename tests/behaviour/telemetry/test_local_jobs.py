"""The telemetry of jobs on the local engine, as subscribers of the same process see it."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.telemetry.following import check_json, number_of, view_where
from tests.waiting import eventually
from tidewheel.console.metrics import export
from tidewheel.console.metrics.export import TelemetryExport
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.subscribers.telemetry_reader import TelemetryReader
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.runtime.telemetry import job_telemetry

DEADLINE_S = 20.0


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents come ten times a second, so that tests take no longer than they need."""
    monkeypatch.setattr(job_telemetry, "PERIOD_S", 0.1)
    monkeypatch.setattr(job_telemetry, "_SOONEST_S", 0.01)


def counted(name: str = "counted") -> tw.Dataflow:
    def body(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        moved = numbers.exchange(lambda n: n).map(lambda n: n - 1)
        return moved.filter(lambda n: n > 0), moved.filter(lambda n: n <= 0)

    flow = tw.Dataflow(name)
    flow.input("numbers").iterate(body, name="loop").count().probe("done").capture("counts")
    return flow


def telemetry_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tidewheel-telemetry"]


def test_without_listeners_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread, and no call to a worker. When the last listener has left, it is so again."""
    looks: list[float] = []
    look = LocalJob._look

    def count(job: LocalJob, within_s: float) -> Any:
        looks.append(within_s)
        return look(job, within_s)

    monkeypatch.setattr(LocalJob, "_look", count)
    with tw.run(counted(), workers=2, engine="local") as job:
        assert "tidewheel/telemetry/" + job.name in LOCAL_CATALOG.hidden()
        assert telemetry_threads() == []
        job.input("numbers").send(list(range(20)))
        job.input("numbers").advance_to(1)
        job.probe("done").wait_until(1)
        assert (looks, telemetry_threads()) == ([], [])
        with TelemetryReader(job.name) as reader:
            next(reader)
            assert len(telemetry_threads()) == 1
        assert eventually(lambda: telemetry_threads() == [])
        before = len(looks)
        assert before > 0
        job.input("numbers").close()
        job.wait()
    assert len(looks) == before
    assert "tidewheel/telemetry/" + job.name not in LOCAL_CATALOG.hidden()


@pytest.mark.parametrize("workers", [1, 3])
def test_a_job_describes_itself_to_its_end(workers: int) -> None:
    """Each document is JSON; the last one has all counts, and then the topic ends."""
    with tw.run(counted(), workers=workers, engine="local") as job, TelemetryReader(job.name) as reader:
        first = next(reader).document
        assert first["job"]["state"] == "running"
        assert {name: first["job"][name] for name in ("name", "dataflow", "engine", "workers", "host")} == {
            "name": job.name,
            "dataflow": "counted",
            "engine": "local",
            "workers": workers,
            "host": job.name,
        }
        assert first["picture"].startswith("<svg")
        job.input("numbers").send([1, 5, 9])
        job.input("numbers").advance_to(1)
        job.probe("done").wait_until(1)
        document = view_where(reader, lambda document: document["probes"]["done"]["frontier"] == ["1"]).document
        check_json(document)
        assert document["inputs"]["numbers"]["records"] == 3
        assert len(document["workers"]) == workers
        assert all(worker["rss"] > 0 and worker["pid"] > 0 for worker in document["workers"].values())
        job.input("numbers").close()
        job.wait()
        job.stop()
        last = [view.document for view in reader][-1]
        assert last["job"]["state"] == "complete"
        assert last["operators"][number_of(last, "count")]["records_out"] == 1
        assert last["log"] != {}


def test_a_job_runs_since_it_was_deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that starts with it may take a minute for that."""
    deploy = LocalJob._deploy
    deployed: list[float] = []

    def note(job: LocalJob, attachments: Mapping[str, Any]) -> None:
        deploy(job, attachments)
        deployed.append(time.time())

    monkeypatch.setattr(LocalJob, "_deploy", note)
    with tw.run(counted(), engine="local") as job, TelemetryReader(job.name) as reader:
        assert next(reader).document["job"]["since"] >= round(deployed[0], 3)
        job.stop()


def test_a_late_listener_has_the_same_documents() -> None:
    """Whole documents and merged patches say the same of the same moment."""
    with tw.run(counted(), workers=2, engine="local") as job, TelemetryReader(job.name) as early:
        found: dict[float, Mapping[str, Any]] = {}
        for number in range(5):
            job.input("numbers").send([number] * number)
            job.input("numbers").advance_to(number + 1)
            job.probe("done").wait_until(number + 1)
            view = next(early)
            found[view.document["at"]] = view.document
        with TelemetryReader(job.name) as late:
            seen = [next(late).document for _ in range(3)]
        while seen[-1]["at"] not in found:
            view = next(early)
            found[view.document["at"]] = view.document
        assert [found[document["at"]] for document in seen] == seen
        job.stop()


def test_a_failure_is_told_with_its_reason() -> None:
    """Within two seconds, and then the topic ends."""

    def fail(number: int) -> int:
        raise ValueError(f"no {number}")

    flow = tw.Dataflow("failing")
    flow.input("numbers").map(fail, name="fail").capture("results")
    job = tw.run(flow, engine="local")
    with TelemetryReader(job.name) as reader:
        next(reader)
        job.input("numbers").send([7])
        job.input("numbers").close()
        with pytest.raises(tw.JobError):
            job.wait()
        last = [view.document for view in reader][-1]
        assert last["job"]["state"] == "failed"
        assert "no 7" in last["job"]["error"]
        assert [event["level"] for event in last["log"].values()][-1] == "error"
    job.stop()


def test_a_stop_is_told() -> None:
    """A job that was stopped is not complete."""
    job = tw.run(counted(), engine="local")
    with TelemetryReader(job.name) as reader:
        next(reader)
        job.stop()
        assert [view.document["job"]["state"] for view in reader][-1] == "stopped"


def test_a_stop_by_an_operator_is_told() -> None:
    """The job is in the middle of a step then, and does not answer."""

    def stop(number: int) -> int:
        job.stop()
        return number

    flow = tw.Dataflow("stops itself")
    flow.input("numbers").map(stop).probe("done")
    job = tw.run(flow, engine="local")
    with TelemetryReader(job.name) as reader:
        next(reader)
        job.input("numbers").send([1])
        with pytest.raises(tw.JobError):
            job.probe("done").wait_until(1)
        assert [view.document["job"]["state"] for view in reader][-1] == "stopped"


def test_an_operator_that_takes_long_is_named() -> None:
    """The job's lock is held meanwhile; the collector does not wait for it."""
    go_on = threading.Event()

    def wait(number: int) -> int:
        assert go_on.wait(DEADLINE_S)
        return number

    flow = tw.Dataflow("slow")
    flow.input("numbers").map(wait, name="wait").probe("done")
    with tw.run(flow, engine="local") as job, TelemetryReader(job.name) as reader:
        job.input("numbers").send([1])
        job.input("numbers").close()

        def look_and_free() -> None:
            try:
                found.append(view_where(reader, is_busy).document)
            finally:
                go_on.set()

        found: list[Mapping[str, Any]] = []
        looking = threading.Thread(target=look_and_free)
        looking.start()
        job.wait()
        looking.join(DEADLINE_S)
    [document] = found
    assert document["operators"][number_of(document, "wait")]["busy"]["worker"] == "0"
    assert document["workers"]["0"]["busy"]["operator"] == number_of(document, "wait")


def is_busy(document: Mapping[str, Any]) -> bool:
    return any("busy" in operator for operator in document["operators"].values())


def test_added_dataflows_have_telemetry_of_their_own() -> None:
    """It says on whose workers they run, and ends with them."""
    with tw.run(counted("host"), engine="local") as job:
        added = job.add(counted("guest"))
        with TelemetryReader(added.name) as reader:
            document = next(reader).document
            assert (document["job"]["name"], document["job"]["host"]) == (added.name, job.name)
            job.drop("guest")
            assert [view.document["job"]["state"] for view in reader][-1] == "stopped"
        job.stop()


def test_snapshots_are_told(tmp_path: Any) -> None:
    """When the last one was taken, how large it is, and how long it took."""
    flow = tw.Dataflow("kept")
    flow.input("words").stateful_map(lambda word: word, start=int, step=lambda n, _: (n + 1, n)).probe("done")
    with (
        tw.run(flow, engine="local", snapshots=tw.Snapshots(tmp_path)) as job,
        TelemetryReader(job.name) as reader,
    ):
        assert next(reader).document["snapshots"] == {"folder": job._snapshots.url}  # type: ignore[union-attr]
        job.input("words").send(["to", "be"])
        number = job.snapshot()
        told = view_where(reader, lambda document: "number" in document["snapshots"]).document["snapshots"]
        assert (told["number"], told["bytes"] > 0, told["written_bytes"] > 0) == (number, True, True)
        assert 0 <= told["seconds"] < DEADLINE_S
        job.input("words").close()
        job.wait()


def test_topics_are_told() -> None:
    """With how far their slowest subscriber lags."""
    flow = tw.Dataflow("published")
    flow.input("numbers").publish("seen by telemetry")
    with tw.run(flow, engine="local") as job, TelemetryReader(job.name) as reader, tw.subscribe("seen by telemetry"):
        job.input("numbers").send([1, 2])
        job.input("numbers").close()
        job.wait()

        def lags(document: Mapping[str, Any]) -> bool:
            return bool(document["topics"]["seen by telemetry"]["partitions"]["0"]["lag_messages"])

        counts = view_where(reader, lags).document["topics"]["seen by telemetry"]["partitions"]["0"]
        assert (counts["records"], counts["subscribers"]) == (2, 1)


def test_secrets_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the environment nor what a function knows is in any document."""
    secrets = {
        name: f"s3cret-{name.lower()}" for name in ("AWS_SECRET_ACCESS_KEY", "RAY_AUTH_TOKEN", "TIDEWHEEL_TOKEN")
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    password = "s3cret-of-a-function"

    def log_in(number: int, key: str = "s3cret-default") -> int:
        return number + len(password) + len(key)

    flow = tw.Dataflow("guarded")
    flow.input("numbers").map(log_in).exchange(lambda n: n).probe("done")
    told: list[str] = []
    with tw.run(flow, workers=2, engine="local") as job, TelemetryReader(job.name) as reader:
        told.append(json.dumps(next(reader).document))
        job.input("numbers").send([1])
        job.input("numbers").close()
        job.wait()
        job.stop()
        told += [json.dumps(view.document) for view in reader]
    assert len(told) >= 2
    assert not any("s3cret" in text for text in told)


@pytest.mark.parametrize("failure", [RuntimeError("seeded"), SystemExit()])
def test_a_failure_of_the_collector_does_not_fail_the_job(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, failure: BaseException
) -> None:
    """It is logged, and the next document comes whole. Ray raises SystemExit in threads when it is shut down."""
    observe: Callable[..., Any] = job_telemetry.JobTelemetry._observe
    failures = iter([True, True])

    def fail_twice(telemetry: Any, job: Any) -> Any:
        if next(failures, False):
            raise failure
        return observe(telemetry, job)

    monkeypatch.setattr(job_telemetry.JobTelemetry, "_observe", fail_twice)
    with tw.run(counted(), engine="local") as job, TelemetryReader(job.name) as reader:
        assert next(reader).document["job"]["name"] == job.name
        job.input("numbers").close()
        job.wait()
    assert "could not be described" in caplog.text


def test_a_job_that_nobody_holds_is_not_kept_alive() -> None:
    """Its topic, which the catalog of the process has, goes with it."""
    import gc

    job = tw.run(counted(), engine="local")
    name = f"tidewheel/telemetry/{job.name}"
    assert name in LOCAL_CATALOG.hidden()
    del job
    assert eventually(lambda: gc.collect() >= 0 and name not in LOCAL_CATALOG.hidden())


class Target:
    """Keeps the documents that are exported."""

    def __init__(self) -> None:
        self.shown: list[Mapping[str, Any]] = []

    def show(self, document: Mapping[str, Any]) -> None:
        self.shown.append(document)

    def end(self) -> None:
        pass


def test_an_export_ends_with_the_last_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that waits for its job ends in the middle of a second."""
    target = Target()
    monkeypatch.setattr(export, "_target", lambda *_: target)
    monkeypatch.setattr(job_telemetry, "PERIOD_S", DEADLINE_S)
    with tw.run(counted(), engine="local") as job:
        with TelemetryExport(job.name, "ray"):
            assert eventually(lambda: len(target.shown) == 2)
            job.input("numbers").send([1, 5, 9])
            job.input("numbers").close()
            job.wait()
        last = target.shown[-1]
        assert (last["job"]["state"], last["inputs"]["numbers"]["records"]) == ("complete", 3)
