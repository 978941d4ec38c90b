"""The interface of the worker that feeds a partition, and the events for moves of its frontier."""

from tidewheel.progress import Antichain, Time


def moved(before: Antichain, now: Antichain) -> list[tuple[Time, int]]:
    """Return the move of a frontier: -1 for each time that has left it, +1 for each time that has entered it."""
    return [*((time, -1) for time in before if time not in now), *((time, 1) for time in now if time not in before)]


def feeder_of(partition: int, workers: int) -> int:
    return partition % workers
