"""The capture_to operator: writes what passes to a log of each worker, from which `ReplaySource` plays it again."""

from pathlib import Path
from typing import Any

from tidewheel.operators.sinks.capture_log import LogHeader, LogWriter
from tidewheel.progress import Time
from tidewheel.runtime import Build, InputPort, OperatorContext, Schedule

VERSION = 1


def log_path(folder: Path, worker: int) -> Path:
    """Return where a worker's log is."""
    return folder / f"worker-{worker:05d}.log"


def build_capture_to(folder: Path, run: str, *, overwrite: bool) -> Build:
    """Return the build function of an operator that logs each batch, and after them how the frontier has moved.

    How far the log goes is its state, so that what comes after that can be taken back.
    """

    def build(context: OperatorContext) -> Schedule:
        written: dict[str, Any] = context.state("written", lambda: {"length": 0, "frontier": None})
        folder.mkdir(parents=True, exist_ok=True)
        header = LogHeader(VERSION, run, context.worker, context.workers)
        log = LogWriter(log_path(folder, context.worker), header, written["length"], overwrite=overwrite)
        context.on_close(log.close)

        def schedule(input: InputPort) -> None:
            for token, batch in input:
                log.batch(token.time, batch)
            times: tuple[Time, ...] = tuple(input.frontier)
            if times != written["frontier"]:
                written["frontier"] = times
                log.frontier(times)
            written["length"] = log.length

        return schedule

    return build
