"""The capture operators, and the recordings that capture_to writes."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.log.faulty_files import IDENTITY
from tests.kit.messages import raises
from tests.kit.operators.harness import DEADLINE_S, Case, Feed, run, send, settle
from tidewheel.batches.batches import Batch, is_arrow
from tidewheel.operators.sinks.recording import (
    RECORDING_VERSION,
    LoggedFrontier,
    RecordingHeader,
    RecordingWriter,
    read_frontier,
    read_header,
    read_recording,
    recording_path,
)
from tidewheel.storage.log_records import encode_header


def test_captures_are_in_order_of_worker_and_arrival() -> None:
    """What each worker saw comes in the order in which it came there, worker by worker."""
    results = run(lambda stream: stream, Case([(0, [1]), (0, [2]), (1, [3]), (2, [4])], workers=2))
    assert [(result.time, result.batch) for result in results] == [(0, [1]), (1, [3]), (0, [2]), (2, [4])]


def test_capturing_does_not_change_the_stream() -> None:
    """It returns the stream it was called on, so that a chain can go on, and may be used at several places."""
    flow = tw.Dataflow("test")
    stream = flow.input("numbers")
    assert stream.capture("before") is stream
    stream.map(lambda number: number + 1).capture("after")
    with tw.run(flow, engine="local") as job:
        send(job, "numbers", [(0, [1])])
        job.wait()
        assert [job.captured(name)[0].batch for name in ("before", "after")] == [[1], [2]]


def test_captures_can_be_read_while_the_job_runs() -> None:
    """Each reading has all that came so far, and does not take it away."""
    flow = tw.Dataflow("test")
    flow.input("numbers").capture("results").probe("done")
    sizes: list[Any] = []
    with tw.run(flow, engine="local") as job:
        for time in range(3):
            job.input("numbers").send([time])
            job.input("numbers").advance_to(time + 1)
            job.probe("done").wait_until(time + 1)
            sizes.append([result.batch for result in job.captured("results")])
        job.stop()
    assert sizes == [[[0]], [[0], [1]], [[0], [1], [2]]]


def record(folder: Path, feed: Feed, workers: int = 1, **options: Any) -> None:
    """Record a feed to its end."""
    flow = tw.Dataflow("test")
    flow.input("numbers").capture_to(folder, **options)
    with tw.run(flow, workers=workers, engine="local") as job:
        send(job, "numbers", feed)
        job.wait(DEADLINE_S)


def test_the_log_has_batches_and_frontiers_in_order(tmp_path: Path) -> None:
    """Each time is complete only after its batches, and the last frontier is empty."""
    record(tmp_path, [(0, [1]), (0, [2]), (2, [3])])
    events = list(read_recording(recording_path(tmp_path, 0)))
    batches = [event for event in events if isinstance(event, tw.types.Captured)]
    assert batches == [tw.types.Captured(0, [1]), tw.types.Captured(0, [2]), tw.types.Captured(2, [3])]
    assert events[-1] == LoggedFrontier(()) == read_frontier(recording_path(tmp_path, 0))
    for place, event in enumerate(events):
        if isinstance(event, LoggedFrontier):
            later = [later.time for later in events[place:] if isinstance(later, tw.types.Captured)]
            assert all(any(least <= time for least in event.times) for time in later)


def test_it_can_be_read_while_the_job_runs(tmp_path: Path) -> None:
    """What was complete is in the file as soon as the job has seen that; it returns the stream it was called on."""
    flow = tw.Dataflow("test")
    numbers = flow.input("numbers")
    assert numbers.capture_to(tmp_path) is numbers
    with tw.run(flow, engine="local") as job:
        for time in range(3):
            job.input("numbers").send([time])
            job.input("numbers").advance_to(time + 1)
            settle(job)
            assert list(read_recording(recording_path(tmp_path, 0)))[-1] == LoggedFrontier((time + 1,))
        job.stop()


def test_each_worker_has_a_log(tmp_path: Path) -> None:
    """Of one run, with its number; a folder is made for them."""
    record(tmp_path / "new" / "folder", [(0, [1]), (0, [2])], workers=3)
    headers = [read_header(recording_path(tmp_path / "new" / "folder", worker)) for worker in range(3)]
    assert [(header.worker, header.workers) for header in headers] == [(0, 3), (1, 3), (2, 3)]
    assert len({header.run for header in headers}) == 1


def test_a_recording_is_not_overwritten_by_accident(tmp_path: Path) -> None:
    """The second run fails before it begins, and the first recording is as it was."""
    record(tmp_path, [(0, [1])])
    with raises(tw.JobError):
        record(tmp_path, [(0, [2])])
    assert tw.types.Captured(0, [1]) in list(read_recording(recording_path(tmp_path, 0)))
    record(tmp_path, [(0, [2])], overwrite=True)
    assert [
        event.batch for event in read_recording(recording_path(tmp_path, 0)) if isinstance(event, tw.types.Captured)
    ] == [[2]]


@pytest.mark.parametrize(
    "batch",
    [
        [1, "two", (3.0, None), {"four": [b"5"]}],
        pa.table({"n": [1, None], "s": [["a"], []]}),
        pa.record_batch({"n": [1, 2]}),
        pa.table({"n": range(100)}).slice(10, 5),
        np.arange(6).reshape(3, 2),
        np.array([(1, 2.5)], dtype=[("a", "i8"), ("b", "f8")]),
        np.array(["2024-01-01"], dtype="M8[D]"),
        np.empty((0, 3), "f4"),
        np.asfortranarray(np.arange(6).reshape(3, 2)),
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_batches_come_back_as_what_they_were(tmp_path: Path, batch: Batch) -> None:
    """Arrow as Arrow of its kind, arrays as arrays of their type."""
    writer = RecordingWriter(tmp_path / "log", RecordingHeader(RECORDING_VERSION, "run", 0, 1), 0, overwrite=False)
    writer.batch((1, (2, "x")), batch)
    writer.close()
    [found] = read_recording(tmp_path / "log")
    assert isinstance(found, tw.types.Captured)
    assert found.time == (1, (2, "x"))
    assert type(found.batch) is type(batch)
    if isinstance(batch, np.ndarray):
        assert found.batch.dtype == batch.dtype
        assert found.batch.shape == batch.shape
        assert found.batch.flags.writeable
        assert (found.batch == batch).all()
    else:
        assert found.batch.equals(batch) if is_arrow(batch) else found.batch == batch


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([object()], "TypeError: a object is no plain value"),
        (np.array([object()]), "TypeError: an array of object holds Python objects, which are not written"),
    ],
)
def test_what_would_need_a_pickle_fails_the_job(tmp_path: Path, records: Any, message: str) -> None:
    """The error names the operator and the time."""
    flow = tw.Dataflow("test")
    flow.source("records", tw.IterableSource([[(3, records)]])).capture_to(tmp_path)
    with pytest.raises(tw.JobError, match=rf"'capture_to \w+' failed on worker 0 at time 3: {message}"):
        tw.run(flow, engine="local").wait(DEADLINE_S)


def test_a_log_that_was_cut_off_has_what_is_whole(tmp_path: Path) -> None:
    """Wherever it was cut: a part of a record is no record. One that is cut in its header is refused."""
    record(tmp_path, [(0, [1]), (1, [2])])
    log = recording_path(tmp_path, 0)
    whole, everything = log.read_bytes(), list(read_recording(log))
    seen, header = set(), len(encode_header(read_header(log)))
    for length in range(len(whole)):
        log.write_bytes(whole[:length])
        if length < header:
            with pytest.raises(ValueError, match="is damaged, or no recording"):
                read_header(log)
            continue
        found = list(read_recording(log))
        assert found == everything[: len(found)]
        seen.add(len(found))
    assert seen == set(range(len(everything)))


def test_a_log_that_is_damaged_is_refused(tmp_path: Path) -> None:
    """A changed byte anywhere is found, or makes the recording end before; the error names the file."""
    record(tmp_path, [(0, [1, 2, 3])])
    log = recording_path(tmp_path, 0)
    whole, everything = log.read_bytes(), list(read_recording(log))
    damaged = 0
    for place in range(len(whole)):
        log.write_bytes(whole[:place] + bytes([whole[place] ^ 0x40]) + whole[place + 1 :])
        try:
            found = list(read_recording(log))
        except ValueError as error:
            damaged += 1
            assert str(log) in str(error)  # noqa: PT017 - not every change is found as damage
        else:
            assert len(found) < len(everything)
    assert damaged > len(whole) * 0.9


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    """A pickle is not read, and a log of another version is not guessed at."""
    (tmp_path / "pickle").write_bytes(pickle.dumps([1] * 100))
    (tmp_path / "empty").touch()
    for name in ("pickle", "empty"):
        with pytest.raises(ValueError, match="is damaged, or no recording of capture_to"):
            read_header(tmp_path / name)
    RecordingWriter(tmp_path / "new", RecordingHeader(9, "run", 0, 1), 0, overwrite=False).close()
    with pytest.raises(ValueError, match="is a recording of version 9, and this tidewheel reads version"):
        read_header(tmp_path / "new")


def test_a_log_goes_on_from_where_its_state_was(tmp_path: Path) -> None:
    """What was written after that is taken back, so that nothing is in it twice."""
    header = RecordingHeader(RECORDING_VERSION, "run", 0, 1)
    writer = RecordingWriter(tmp_path / "log", header, 0, overwrite=False)
    writer.batch(0, [1])
    length = writer.length
    writer.batch(0, [2])
    writer.frontier(())
    writer.close()
    again = RecordingWriter(tmp_path / "log", header, length, overwrite=False)
    again.batch(0, [3])
    again.frontier((1,))
    assert again.length == (tmp_path / "log").stat().st_size
    again.close()
    assert list(read_recording(tmp_path / "log")) == [
        tw.types.Captured(0, [1]),
        tw.types.Captured(0, [3]),
        LoggedFrontier((1,)),
    ]


def test_a_snapshot_counts_only_what_has_left_the_process(tmp_path: Path) -> None:
    """In an epoch that is open, too: a process that is killed takes along what it has not handed over."""
    flow = tw.Dataflow("test")
    flow.input("numbers").capture_to(tmp_path / "log")
    path = recording_path(tmp_path / "log", 0)
    with tw.run(flow, engine="local", snapshots=tw.Snapshots(tmp_path / "snapshots", every_s=1000)) as job:
        settle(job)  # with the first frontier, which is handed over
        for batch in ([1], [2, 3]):
            job.input("numbers").send(batch)
        settle(job)
        job.snapshot()
        assert [event.batch for event in read_recording(path) if isinstance(event, tw.types.Captured)] == [[1], [2, 3]]
        job.stop()


def test_a_log_that_was_cut_since_its_snapshot_is_refused(tmp_path: Path) -> None:
    """It is not filled up with zeros."""
    header = RecordingHeader(RECORDING_VERSION, "run", 0, 1)
    writer = RecordingWriter(tmp_path / "log", header, 0, overwrite=False)
    length = writer.flush()
    writer.close()
    with pytest.raises(tw.errors.SnapshotError, match=rf"log has {length} bytes, and had {length + 1} at the snapshot"):
        RecordingWriter(tmp_path / "log", header, length + 1, overwrite=False)


def test_a_log_that_another_run_has_replaced_since_its_snapshot_is_refused(tmp_path: Path) -> None:
    """It is not cut, also if it has as many bytes: that recording stays as it is."""
    writer = RecordingWriter(tmp_path / "log", RecordingHeader(RECORDING_VERSION, "runs", 0, 1), 0, overwrite=False)
    writer.batch(0, [1])
    writer.close()
    before = (tmp_path / "log").read_bytes()
    with pytest.raises(
        tw.errors.SnapshotError, match=r"log is not the recording that it was at the snapshot: another run"
    ):
        RecordingWriter(
            tmp_path / "log", RecordingHeader(RECORDING_VERSION, "mine", 0, 1), writer.length - 1, overwrite=False
        )
    assert (tmp_path / "log").read_bytes() == before


def test_the_log_of_a_topic_is_no_recording(tmp_path: Path) -> None:
    """Though its records have the same form: the header says whose they are."""
    (tmp_path / "log").write_bytes(encode_header(IDENTITY))
    with pytest.raises(ValueError, match=r"log is damaged, or no recording of capture_to"):
        read_header(tmp_path / "log")


@pytest.mark.parametrize("folder", [3, "", None])
def test_what_is_no_folder_is_refused_at_once(folder: Any) -> None:
    """When the dataflow is described."""
    with raises(tw.GraphError):
        tw.Dataflow("test").input("numbers").capture_to(folder)


def test_two_captures_into_one_folder_are_refused(tmp_path: Path) -> None:
    """Each would replace the logs of the other, with ``overwrite=True`` in silence."""
    numbers = tw.Dataflow("test").input("numbers").capture_to(tmp_path, overwrite=True)
    with raises(tw.GraphError):
        numbers.map(abs).capture_to(tmp_path / ".." / tmp_path.name, overwrite=True)
