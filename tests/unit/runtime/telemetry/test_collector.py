"""Tests of the collector: what a document says of the workers' reports."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.runtime.stuck_flows import deploy, hoarding
from tests.kit.telemetry.following import check_json, number_of
from tidewheel.host.process_memory import ProcessUse
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.runtime.messages.worker_report import BusyWorker, WorkerReport
from tidewheel.runtime.telemetry.collector import Collector
from tidewheel.runtime.telemetry.observation import JobFacts, Observation

AT = 1000.0


class Looked:
    """A local job, and the documents of looks at it."""

    def __init__(self, flow: tw.Dataflow, workers: int = 2) -> None:
        self.job: LocalJob = deploy(flow, workers)
        facts = JobFacts({"name": "job"}, self.job.plan, self.job._compiled, description_of(flow).outline(), 1000)
        self.collector = Collector(facts, lambda: 0.0)

    def look(self, at: float = AT, reports: Sequence[Any] | None = None, **seen: Any) -> dict[str, Any]:
        """Return the document of the job as it is now, or of these reports."""
        told = self.job._reports() if reports is None else reports
        parts = {"state": "running", "feed": self.job._feed, **seen}
        document = self.collector.document(Observation(at, reports=told, **parts))
        check_json(document)
        return document


def counting() -> tw.Dataflow:
    """Return a dataflow with a chain of stages, an exchange, a loop, state, and each kind of end."""
    flow = tw.Dataflow("counting")
    words = flow.input("lines").flat_map(str.split, name="split").map(str.lower, name="lower")
    counts = words.exchange(hash, name="spread").stateful_map(
        lambda word: word, start=int, step=lambda n, _: (n + 1, n), name="sum"
    )
    counts.probe("done").capture("counts")
    return flow


@pytest.fixture
def looked() -> Iterator[Looked]:
    """A job that has counted one epoch, with an input at time 1."""
    made = Looked(counting())
    with made.job as job:
        job.input("lines").send(["To be or", "not to be"])
        job.input("lines").advance_to(1)
        job.probe("done").wait_until(1)
        yield made
        made.job.stop()


def test_counts_are_those_of_all_workers(looked: Looked) -> None:
    """By the numbers of the dataflow as it was described: stages that run as one are counted by themselves."""
    document = looked.look()
    operators = document["operators"]
    assert [one["name"] for one in operators.values()][:3] == ["input lines", "split", "lower"]
    split, lower = operators[number_of(document, "split")], operators[number_of(document, "lower")]
    assert (split["records_in"], split["records_out"], lower["records_out"]) == (2, 6, 6)
    assert operators[number_of(document, "sum")]["state_keys"] == 4
    assert 100 < operators[number_of(document, "sum")]["state_bytes"] < 2000
    assert "state_bytes" not in split
    assert [operators[number]["kind"] for number in (min(operators, key=int), max(operators, key=int))] == [
        "input",
        "output",
    ]
    statistics = looked.job.statistics()
    for one in operators.values():
        assert one["records_in"] == statistics.operators[one["name"]].records_in
        assert one["frontier"] == list(map(repr, statistics.operators[one["name"]].frontier))


def test_edges_are_those_that_were_described(looked: Looked) -> None:
    """Those within a chain have the counts of the stage before them."""
    document = looked.look()
    edges = {
        (document["operators"][one["source"]]["name"], document["operators"][one["target"]]["name"]): one
        for one in document["edges"].values()
    }
    assert [edges[ends]["records"] for ends in (("input lines", "split"), ("split", "lower"))] == [2, 6]
    assert edges["lower", "spread"]["label"] == "by hash"
    assert edges["lower", "spread"]["bytes"] > 0


def test_probes_and_inputs_say_how_far_they_are(looked: Looked) -> None:
    """A capture is a place that `explain` knows, too."""
    document = looked.look()
    assert {name: (one["kind"], one["frontier"]) for name, one in document["probes"].items()} == {
        "done": ("probe", ["1"]),
        "counts": ("capture", ["1"]),
    }
    assert document["inputs"]["lines"]["records"] == 2
    assert (document["inputs"]["lines"]["is_open"], document["inputs"]["lines"]["epoch"]) == (True, "1")
    looked.job.input("lines").close()
    looked.job.wait()
    document = looked.look()
    assert (document["inputs"]["lines"]["is_open"], document["probes"]["done"]["frontier"]) == (False, [])
    assert "epoch" not in document["inputs"]["lines"]


def test_sources_and_sinks_have_their_numbers(tmp_path: Path) -> None:
    """A source that cannot tell its lag has none, and a sink that has committed nothing no last commit."""
    (tmp_path / "lines.txt").write_text("to be\nor not\n")
    flow = tw.Dataflow("copied")
    lines = flow.source("lines", tw.FileSource(tmp_path / "lines.txt"))
    lines.write_files(tmp_path / "copied", "text", name="copy")
    made = Looked(flow)
    with made.job as job:
        assert made.look()["sinks"] == {"copy": {"operator": "3", "records": 0, "epochs": 0, "waiting": 0}}
        job.wait(20)
        document = made.look()
    assert document["sources"] == {"lines": {"operator": "1", "partitions": 0, "records": 2}}
    sink = document["sinks"]["copy"]
    assert document["operators"][sink.pop("operator")]["name"] == "copy"
    assert sink.pop("committed") > 0
    assert sink == {"records": 2, "epochs": 1, "waiting": 0}


def test_only_what_stays_where_it_is_gets_explained(looked: Looked) -> None:
    """A job that goes on pays nothing for explanations; one that waits is explained at the second look."""
    assert "explanation" not in looked.look()["probes"]["done"]
    probe = looked.look(AT + 1)["probes"]["done"]
    assert probe["explanation"] == str(looked.job.explain("done"))
    assert probe["holders"] == ["0"]
    assert probe["moved"] == AT
    looked.job.input("lines").advance_to(2)
    looked.job.probe("done").wait_until(2)
    probe = looked.look(AT + 2)["probes"]["done"]
    assert (probe["moved"], "explanation" in probe) == (AT + 2, False)


def test_tokens_are_held_since_they_were_seen_first() -> None:
    """A leak is known by its age; those of an input are there, too."""
    kept: list[tw.TimestampToken] = []
    flow = tw.Dataflow("hoarding")
    flow.input("numbers").unary(hoarding(kept), name="hoard").probe("done")
    made = Looked(flow, workers=1)
    with made.job as job:
        for epoch in range(2):
            job.input("numbers").send([epoch])
            job.input("numbers").advance_to(epoch + 1)
            made.job.run_round()
            made.job.run_round()
            made.look(AT + epoch)
        document = made.look(AT + 2)
        held = document["operators"][number_of(document, "hoard")]["tokens"]
        assert [(one["time"], one["since"], one["worker"], one["awaited"]) for one in held] == [
            ("0", AT, 0, False),
            ("1", AT + 1, 0, False),
        ]
        probe = made.look(AT + 3)["probes"]["done"]
        assert number_of(document, "hoard") in probe["holders"]
        for token in kept:
            token.discard()
        made.job.stop()


def test_a_worker_that_is_busy_counts_as_before(looked: Looked) -> None:
    """Sums do not fall because a worker does not answer, so rates do not become negative."""
    before = looked.look()
    first, second = looked.job._reports()
    document = looked.look(AT + 1, [first, BusyWorker(1, "split > lower", 1, 2.5)])
    split = document["operators"][number_of(document, "split")]
    assert split["records_out"] == before["operators"][number_of(document, "split")]["records_out"]
    assert split["busy"] == {"worker": "1", "time": "1", "seconds": 2.5}
    assert document["workers"]["1"]["state"] == "busy"
    assert document["workers"]["1"]["steps"] == before["workers"]["1"]["steps"]
    assert any("is in operator 'split'" in event["text"] for event in document["log"].values())
    again = looked.look(AT + 2, [first, second])
    assert ("busy" in again["operators"][number_of(document, "split")], again["workers"]["1"]["state"]) == (
        False,
        "running",
    )


@pytest.mark.parametrize(("answer", "state"), [(BusyWorker(1), "silent"), (BusyWorker(1, is_dead=True), "dead")])
def test_a_worker_that_is_gone_is_told(looked: Looked, answer: BusyWorker, state: str) -> None:
    """It may be dead, or not answer though it is in no operator."""
    looked.look()
    document = looked.look(AT + 1, [looked.job._reports()[0], answer])
    assert document["workers"]["1"]["state"] == state
    assert [event["worker"] for event in document["log"].values()] == ["1"]


def test_no_worker_need_answer(looked: Looked) -> None:
    """A job that has failed has no workers any more: the document has what they said last."""
    before = looked.look()
    after = looked.look(AT + 1, [], state="failed", error="no more")
    assert (after["operators"], after["edges"]) == (before["operators"], before["edges"])
    assert (after["job"]["state"], after["job"]["error"]) == ("failed", "no more")
    assert after["log"]["1"]["level"] == "error"


@pytest.mark.parametrize("state", ["complete", "failed", "stopped"])
def test_a_job_that_has_ended_has_no_worker_that_runs_and_no_open_input(looked: Looked, state: str) -> None:
    """Whatever its workers said last; one that has died stays dead."""
    before = looked.look()
    first = looked.job._reports()[0]
    looked.look(AT + 1, [first, BusyWorker(1, "split > lower", 1, 2.5)])
    document = looked.look(AT + 2, [], state=state)
    assert [worker["state"] for worker in document["workers"].values()] == ["ended", "ended"]
    assert "busy" not in document["workers"]["1"]
    assert document["workers"]["1"]["steps"] == before["workers"]["1"]["steps"]
    assert not document["inputs"]["lines"]["is_open"]
    looked.look(AT + 3, [first, BusyWorker(1, is_dead=True)])
    document = looked.look(AT + 4, [], state=state)
    assert [worker["state"] for worker in document["workers"].values()] == ["ended", "dead"]


def test_nobody_has_ever_answered(looked: Looked) -> None:
    """The first document may be that of a job whose workers are all busy."""
    document = looked.look(reports=[BusyWorker(0), BusyWorker(1)])
    assert {worker["state"] for worker in document["workers"].values()} == {"silent"}
    assert {(one["records_in"], *one["frontier"]) for one in document["operators"].values()} == {(0, "0")}


def test_reports_are_left_out_while_the_job_goes_back(looked: Looked) -> None:
    """Some may be of before, and some of after: together they would be of no moment."""
    looked.look()
    looked.job.input("lines").send(["more"])
    looked.job.input("lines").advance_to(2)
    looked.job.probe("done").wait_until(2)
    document = looked.look(AT + 1, state="going back")
    assert document["probes"]["done"]["frontier"] == ["1"]
    document = looked.look(AT + 2, returns=1)
    assert document["probes"]["done"]["frontier"] == ["2"]
    assert [event["text"].split(",")[0] for event in document["log"].values()][-1].startswith("the job has gone back")


def test_processes_and_queues_are_told(looked: Looked) -> None:
    """What waits at an input fills the edge that leads to it."""
    report, other = looked.job._reports()
    assert isinstance(report, WorkerReport)
    target = next(
        number
        for number, at in enumerate(looked.job._compiled.locations)
        if looked.job.plan.describe(at).endswith("'sum'")
    )
    full = replace(
        report,
        queued={(target, 1): 3},
        queued_bytes={target: 250},
        process=ProcessUse(7, "node-a", 4096, 1.5),
        leaked={"sum": 2},
    )
    document = looked.look(reports=[full, other])
    number = number_of(document, "sum")
    assert (document["operators"][number]["queue"], document["operators"][number]["leaks"]) == (3, 2)
    assert [edge["fill"] for edge in document["edges"].values() if edge["target"] == number] == [0.25]
    assert {name: document["workers"]["0"][name] for name in ("pid", "node", "rss", "cpu_seconds")} == {
        "pid": 7,
        "node": "node-a",
        "rss": 4096,
        "cpu_seconds": 1.5,
    }


def test_topics_and_snapshots_are_told() -> None:
    """A publisher that does not answer in time is as it was."""
    flow = tw.Dataflow("published")
    flow.input("numbers").publish("collected by telemetry")
    made = Looked(flow)
    with made.job as job:
        counts = {name: topic.statistics() for name, topic in job._attachments.topics.items()}
        taken = {"folder": "/x", "number": 3, "taken": AT, "bytes": 10, "written_bytes": 4, "seconds": 0.1}
        document = made.look(topics=counts, snapshots=taken)
        topic = document["topics"]["collected by telemetry"]
        assert (topic["delivery"], set(topic["partitions"])) == ("best_effort", {"0", "1"})
        assert document["operators"][topic["operator"]]["name"] == "publish collected by telemetry"
        assert document["snapshots"] == taken
        assert made.look(AT + 1)["topics"] == document["topics"]
        job.input("numbers").close()
        job.wait()


def test_counts_fall_once_as_a_job_goes_back(looked: Looked) -> None:
    """Prometheus takes each fall for a new start at zero: what a worker had counted before must not come again."""
    split = number_of(looked.look(), "split")
    _, second = looked.job._reports()
    looked.look(AT + 1, [], state="going back")
    begun = looked.look(AT + 2, [BusyWorker(0), second], returns=1)
    assert begun["operators"][split]["records_out"] == second.statistics.operators["split"].records_out  # type: ignore[union-attr]
    assert looked.look(AT + 3, returns=1)["operators"][split]["records_out"] == 6


def test_records_that_nothing_reads_are_counted() -> None:
    """An operator with streams side by side says how many records left by those without a reader, on all workers."""
    flow = tw.Dataflow("trying")
    sizes = flow.input("texts").rebalance().branch(str.isdigit)
    sizes.matching.probe("done").capture("numbers")
    sizes.rest.ignore()
    with (made := Looked(flow)).job as job:
        job.input("texts").send(["1", "two", "3", "four", "five"])
        job.input("texts").advance_to(1)
        job.probe("done").wait_until(1)
        document = made.look()
        dropped = {one["name"]: one["records_dropped"] for one in document["operators"].values()}
        job.input("texts").close()
    assert dropped == {"input texts": 0, "rebalance": 0, "branch": 3, "capture numbers": 0}
