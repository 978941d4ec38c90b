"""Faults in hold-back, in what workers conclude from the counts they know, and in what they do then."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.kit.simulation.injection import Injection, replaced
from tidewheel.progress import (
    Change,
    CompiledGraph,
    GraphShape,
    HeldBatch,
    MutableAntichain,
    NetBatch,
    ProgressBatch,
    Spread,
    Step,
    Target,
    Time,
    Tracker,
)
from tidewheel.progress.tracker import _carry
from tidewheel.runtime.worker.operator_instance import OperatorInstance
from tidewheel.runtime.worker.worker_core import WorkerCore


def held_update_dropped() -> Injection:
    def make(add: Callable[[HeldBatch, ProgressBatch], None]) -> Callable[[HeldBatch, ProgressBatch], None]:
        def wrong_add(held: HeldBatch, step: ProgressBatch) -> None:
            add(held, step[:-1] if list(held) else step)

        return wrong_add

    return replaced(HeldBatch, "add", make)


def held_never_looked_at_again() -> Injection:
    return replaced(HeldBatch, "frontiers_moved", lambda _: lambda held, moved: None)


def held_for_ever() -> Injection:
    return replaced(HeldBatch, "_matters", lambda _: lambda held, location, time: False)


def covered_by_itself() -> Injection:
    def make(covered_by: Callable[..., int | None]) -> Callable[..., int | None]:
        def wrong(tracker: Tracker, location: int, time: Time) -> int | None:
            rank = tracker._reach.rank_of.get(location)
            if rank is not None and time in tracker._implications[rank].elements():
                return location
            return covered_by(tracker, location, time)

        return wrong

    return replaced(Tracker, "covered_by", make)


def initial_count_missing() -> Injection:
    def make(initialise: Callable[..., None]) -> Callable[..., None]:
        def wrong(tracker: Tracker, compiled: CompiledGraph, workers: int, interesting: Sequence[Any]) -> None:
            initialise(tracker, compiled, workers - 1, interesting)

        return wrong

    return replaced(Tracker, "__init__", make)


def _summaries_replaced(choose: Callable[[dict[int, Any]], dict[int, Any]]) -> Injection:
    def make(search: Callable[..., dict[int, Any]]) -> Callable[..., dict[int, Any]]:
        def wrong_search(compiled: CompiledGraph, end: int, passes: Callable[[int], bool]) -> dict[int, Any]:
            return choose(search(compiled, end, passes))

        return wrong_search

    return replaced(CompiledGraph, "search_back", make)


def summary_dropped() -> Injection:
    return _summaries_replaced(lambda found: dict(list(found.items())[: max(1, len(found) - 1)]))


def other_workers_messages_lead_nowhere() -> Injection:
    """Have what waits for other workers, where that is counted apart, hold nothing back."""

    def make(steps: Callable[[GraphShape], Iterable[Step]]) -> Callable[[GraphShape], Iterable[Step]]:
        def wrong(graph: GraphShape) -> Iterable[Step]:
            return (step for step in steps(graph) if not (isinstance(step.start, Target) and step.start.worker))

        return wrong

    return replaced(GraphShape, "steps", make)


def one_summary_of_several() -> Injection:
    return _summaries_replaced(lambda found: {start: paths[:1] for start, paths in found.items()})


def counts_cancel() -> Injection:
    """Add up what arrives at a location over all places that it may come from."""

    def wrong_update(tracker: Tracker, changes: Iterable[Change]) -> set[int]:
        implied: dict[int, list[tuple[Time, int]]] = {}
        for (location, time), difference in changes:
            occurrences = tracker._occurrences.setdefault(location, _antichain(tracker, location))
            tracker._live += sum(change for _, change in occurrences.update([(time, difference)]))
            for passage in tracker._reach.entries.get(location, ()):
                _carry(passage, [(time, difference)], implied)
        return tracker._settle(implied)

    return replaced(Tracker, "update", lambda _: wrong_update)


def _antichain(tracker: Tracker, location: int) -> Any:

    return MutableAntichain(tracker._compiled.domains[location])


def frontier_not_renewed() -> Injection:
    def wrong(core: WorkerCore, locations: set[int]) -> None:
        for number in locations & set(core._ports):
            core.activate(core._compiled.locations[number].operator)

    return replaced(WorkerCore, "_frontiers_moved", lambda _: wrong)


def operator_not_woken() -> Injection:
    def wrong(core: WorkerCore, locations: set[int]) -> None:
        for number in locations:
            core._frontiers.pop(number, None)

    return replaced(WorkerCore, "_frontiers_moved", lambda _: wrong)


def no_counts_in_loops() -> Injection:
    """Start without the initial tokens of operators inside a loop."""

    def make(initialise: Callable[..., None]) -> Callable[..., None]:
        def wrong(tracker: Tracker, compiled: CompiledGraph, workers: int, interesting: Sequence[Any]) -> None:
            initialise(tracker, compiled, workers, interesting)
            depths = [compiled.graph.nesting(location).depth for location in compiled.locations]
            tracker.update([(pointstamp, -count) for pointstamp, count in tracker.counts() if depths[pointstamp[0]]])

        return wrong

    return replaced(Tracker, "__init__", make)


def accumulator_waits_for_one_more() -> Injection:
    """Let the accumulator think that what is about to become zero stays above it."""

    def wrong(held: NetBatch, pointstamp: tuple[int, Time], difference: int) -> bool:
        return 0 < held._tracker.count(*pointstamp) < -difference

    return replaced(NetBatch, "_takes_away", lambda _: wrong)


def asleep_with_something_to_tell() -> Injection:
    """Let a worker say that it has nothing to do, though it has progress to send."""
    return replaced(Spread, "is_due", lambda _: property(lambda spread: False))


def unread_messages_forgotten() -> Injection:
    """Do not schedule an operator again that left messages unread."""

    def make(run: Callable[[OperatorInstance], bool]) -> Callable[[OperatorInstance], bool]:
        def wrong_run(instance: OperatorInstance) -> bool:
            run(instance)
            return False

        return wrong_run

    return replaced(OperatorInstance, "run", make)
