"""The operator that records a stream, to one file on each worker.

A recording has batches and frontiers in order of arrival.
"""

import uuid
from pathlib import Path
from typing import Any

from tidewheel.operators.base.division import Division
from tidewheel.operators.sinks.recording import (
    RECORDING_VERSION,
    RecordingHeader,
    RecordingWriter,
    is_of_run,
    recording_path,
)
from tidewheel.progress import Antichain, Time
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.errors import SnapshotError
from tidewheel.runtime.worker.operator_context import OperatorContext, host_of
from tidewheel.runtime.worker.ports import InputPort


def build_capture_to(folder: Path, *, overwrite: bool) -> Build:
    """Return the build function of an operator that logs batches and moves of the frontier, in order.

    Its state is the length of the log; a restore truncates the log to this length. A job that goes back to the time
    before its first snapshot replaces its own log.
    """
    described = uuid.uuid4().hex  # all workers have it from the description

    def refuse(_: object, workers: object) -> Any:
        raise SnapshotError(
            f"capture_to cannot go on with {workers} workers: in {folder} there is a log for each of those that began. "
            "Go on with as many as before"
        )

    def build(context: OperatorContext) -> Schedule:
        nothing = {"length": 0, "frontier": None}
        written: dict[str, Any] = Division(refuse, refuse).state(context, "written", nothing.copy)
        folder.mkdir(parents=True, exist_ok=True)
        run = host_of(context).saving.run
        header = RecordingHeader(RECORDING_VERSION, run or described, context.worker, context.workers)
        path = recording_path(folder, context.worker)
        replaces = overwrite or (bool(run) and is_of_run(path, run))
        log = RecordingWriter(path, header, written["length"], overwrite=replaces)
        written["length"] = log.length
        context.on_close(log.close)

        def may_follow(frontier: Antichain) -> bool:
            before = written["frontier"]
            return before is None or all(map(Antichain(frontier.domain, before).less_equal, frontier))

        def schedule(input: InputPort) -> None:
            for token, batch in input:
                log.batch(token.time, batch)
            frontier = input.frontier
            times: tuple[Time, ...] = tuple(frontier)
            if times != written["frontier"] and may_follow(frontier):
                written["frontier"] = times
                log.frontier(times)
            written["length"] = log.flush()  # bytes that a snapshot counts survive any end of the process

        return schedule

    return build
