"""The telemetry of a local job tells what somebody has to look at: tokens that leaked, and lines of logs."""

import logging
import threading

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.stuck_flows import hoarding
from tests.kit.telemetry.following import number_of, view_where
from tidewheel.pubsub.subscribers.telemetry_reader import TelemetryReader
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.runtime.telemetry import job_telemetry


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents come ten times a second, so that tests take no longer than they need."""
    monkeypatch.setattr(job_telemetry, "PERIOD_S", 0.1)
    monkeypatch.setattr(job_telemetry, "_SOONEST_S", 0.01)


def test_a_leaked_token_is_seen_while_nothing_runs() -> None:
    """The local engine runs only while the driver waits; telemetry comes in any case."""
    kept: list[tw.TimestampToken] = []
    flow = tw.Dataflow("leaking")
    flow.input("numbers").unary(hoarding(kept), name="hoard").probe("done")
    with tw.run(flow, engine="local") as job, TelemetryReader(job.name) as reader:
        job.input("numbers").send([1])
        job.input("numbers").close()
        with raises(tw.JobError):
            job.wait()
        document = view_where(reader, lambda document: "explanation" in document["probes"]["done"]).document
        probe = document["probes"]["done"]
        assert probe["holders"] == [number_of(document, "hoard")]
        assert "the token leaked" in probe["explanation"]
        assert document["operators"][probe["holders"][0]]["tokens"][0]["time"] == "0"
        for token in kept:
            token.discard()


def test_what_operators_log_is_told() -> None:
    """From WARNING on, with the operator; what the program logs elsewhere is its own."""
    logger = logging.getLogger("my.program")

    def warn(n: int) -> int:
        logger.warning("number %d has password=%s", n, "hunter2")
        return n

    flow = tw.Dataflow("logged")
    flow.input("numbers").map(warn, name="warn").probe("done")
    with tw.run(flow, workers=2, engine="local") as job, TelemetryReader(job.name) as reader:
        next(reader)
        logger.warning("not of the job")
        job.input("numbers").send([7])
        job.input("numbers").close()
        job.wait()
        job.stop()
        log = [view.document["log"] for view in reader][-1]
    lines = [entry for entry in log.values() if "logger" in entry]
    assert [(entry["text"], entry["level"], entry["logger"], entry["operator"]) for entry in lines] == [
        ("number 7 has password=***", "warning", "my.program", "warn")
    ]


def test_a_token_that_leaks_in_a_job_without_pauses_is_explained_as_one() -> None:
    """Though the operator that keeps it is always about to run for later epochs."""
    kept: list[tw.TimestampToken] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            if lent.time == 3 and not kept:
                kept.append(lent.retain())
            output.send(lent, batch)

    flow = tw.Dataflow("leaky")
    flow.input("numbers").exchange(lambda n: n).unary(lambda context: schedule, name="keep").probe("done")
    ended = threading.Event()
    with tw.run(flow, workers=2, engine="local") as job, TelemetryReader(job.name) as reader:

        def feed() -> None:
            epoch = 0
            while not ended.is_set():
                epoch += 1
                job.input("numbers").send([epoch, epoch + 1])
                job.input("numbers").advance_to(epoch)
                assert isinstance(job, LocalJob)
                job.run_round()

        feeder = threading.Thread(target=feed)
        feeder.start()
        try:
            leaked = "probably the token leaked"
            view_where(reader, lambda document: leaked in document["probes"]["done"].get("explanation", ""), 5.0)
        finally:
            ended.set()
            feeder.join()
        kept.pop().discard()
        job.stop()
