"""The capture operators, which keep a stream on its worker or record it to a file of each worker.

A recording has batches and frontiers in order of arrival.
"""

import uuid
from itertools import count
from pathlib import Path
from secrets import randbits
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
from tidewheel.runtime import Build, Schedule
from tidewheel.runtime.errors import SnapshotError
from tidewheel.runtime.state.operator_state import CAPTURED
from tidewheel.runtime.worker.operator_context import OperatorContext, host_of
from tidewheel.runtime.worker.ports import InputPort, running_input

_NUMBER_BITS = 62


def build_capture(context: OperatorContext) -> Schedule:
    """Build an operator that keeps (time, batch) in order of arrival, for the driver to fetch."""
    captured = context.keyed_state(CAPTURED)
    numbers = count(randbits(_NUMBER_BITS))  # so that no two workers use the same

    def schedule(input: InputPort) -> None:
        for token, batch in running_input(input).whole():
            captured[next(numbers)] = (token.time, batch)

    return schedule


def build_capture_to(folder: Path, *, overwrite: bool) -> Build:
    """Return the build function of an operator that logs each batch, and each move of the frontier after them.

    Its state is the length of the log, beyond which the log is cut after a restore. A job that goes back before its
    first snapshot replaces its own log.
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
            """Tell whether a frontier is none that was passed before a snapshot was taken."""
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
            written["length"] = log.flush()  # what a snapshot counts is there, however the process ends

        return schedule

    return build
