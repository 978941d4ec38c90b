"""The interface of a worker for its operators, ports and channels."""

import logging
from collections.abc import Callable
from typing import Any

from tidewheel.host.log_lines import about
from tidewheel.progress import Antichain, CompiledGraph, GraphError, Nesting, Spread, Time, Tracker
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.inputs.door import Door
from tidewheel.runtime.messages.envelope import InputCommand, Message
from tidewheel.runtime.messages.questions import Questions
from tidewheel.runtime.substreams.books import SubstreamBooks
from tidewheel.runtime.tokens.token_ledger import TokenLedger
from tidewheel.runtime.worker.agenda import Agenda
from tidewheel.runtime.worker.flow_control import FlowControl
from tidewheel.runtime.worker.outbox import Outbox

_LOGGER = logging.getLogger(__name__)


class Closing:
    """Callbacks for the end of a dataflow, whatever its cause, called in reverse order, each once.

    >>> closing = Closing()
    >>> closing.add("map", lambda: print("the end"))
    >>> closing.close()
    the end
    >>> closing.close()
    """

    def __init__(self) -> None:
        self._callbacks: list[tuple[str, Callable[[], object]]] = []

    def add(self, operator: str, callback: Callable[[], object]) -> None:
        self._callbacks.append((operator, callback))

    def close(self) -> None:
        """Call the callbacks; exceptions are logged."""
        while self._callbacks:
            operator, callback = self._callbacks.pop()
            try:
                callback()
            except Exception:
                _LOGGER.exception("operator %r could not end in good order", operator, extra=about(operator=operator))


class Saving:
    """The snapshots of a job, for the operators of one worker.

    Once a snapshot contains a change of an operator's state, all later snapshots contain it too.

    Args:
        run: a text that all restarts of the job share, and no other job; empty without snapshots.
    """

    def __init__(self, number: int, *, are_taken: bool, run: str = "") -> None:
        self.number = self.saved = number
        self.are_taken = are_taken
        self.run = run
        self._waiting: dict[int, tuple[int, bool]] = {}
        self._followers: set[int] = set()

    def follow(self, operator: int) -> None:
        """Schedule an operator at each durable snapshot, although it does not wait for one."""
        self._followers.add(operator)

    def wait(self, operator: int, behind: int, *, has_ended: bool) -> None:
        """Record that an operator waits for a snapshot later than ``behind``, or with -1 that it no longer waits.

        A waiting operator is scheduled at each durable snapshot. With ``has_ended`` its input has ended, so that it
        waits for nothing else.
        """
        self._waiting[operator] = behind, has_ended

    def hear(self, saved: int, activate: Callable[[int], None]) -> None:
        """Record a durable snapshot, and schedule the operators that wait for one."""
        if saved:
            self.saved = saved
            for operator, (behind, _) in self._waiting.items():
                if behind >= 0:
                    activate(operator)
            for operator in self._followers:
                activate(operator)

    def awaited(self, *, has_ended: bool = False) -> int:
        """Return the number that the awaited snapshot must exceed; -1 if no operator waits.

        With ``has_ended``, only operators whose input has ended count.
        """
        return max((behind for behind, ended in self._waiting.values() if ended or not has_ended), default=-1)


class OperatorHost:
    """The part of a worker that its operators, ports and channels use. `WorkerCore` runs the operators.

    Attributes:
        shared: objects that operators share with later operators; not in snapshots.
        doors: the doors of inboxes, by the input's name.
        received: the last message that an operator has received in this step. If the operator sends the same batch on,
            the batch's size is known.
    """

    plan: Plan
    worker: int
    workers: int
    clock: Callable[[], float]
    ledger: TokenLedger
    flow: FlowControl
    books: SubstreamBooks
    outbox: Outbox
    agenda: Agenda
    activate: Callable[[int], None]
    probes: "ProbeWatch"
    closing: Closing
    saving: Saving
    questions: Questions
    received: Message | InputCommand | None
    shared: dict[str, Any]
    doors: dict[str, Door]
    _compiled: CompiledGraph
    _tracker: Tracker
    _progress: Spread
    _frontiers: dict[int, Antichain]

    def produce(self, location: int, time: Time) -> None:
        self._progress.record_one(location, time, 1)

    def consume(self, location: int, time: Time) -> None:
        self._progress.record_one(location, time, -1)

    def frontier(self, location: int) -> Antichain:
        found = self._frontiers.get(location)
        if found is None:
            found = self._frontiers[location] = self._tracker.frontier(self._compiled.locations[location])
        return found


class ProbeWatch:
    """The frontiers of a dataflow's probes on one worker, and the operators that follow them."""

    def __init__(self, plan: Plan, compiled: CompiledGraph, host: OperatorHost) -> None:
        self._host = host
        self._dataflow = plan.name
        self._places = {name: compiled.index[source] for name, source in plan.probes.items()}
        self._names: dict[int, list[str]] = {}
        for name, location in self._places.items():
            self._names.setdefault(location, []).append(name)
        self._moved = set(plan.probes)
        self._followers: set[int] = set()
        self._ends: dict[int, Nesting] = {}
        self._end_followers: set[int] = set()
        if any(operator.asks_for_ends for operator in plan.operators):
            graph = compiled.graph
            self._ends = {compiled.index[location]: graph.nesting(location) for location in plan.ends(graph)}

    def frontier(self, name: str) -> Antichain:
        return self._host.frontier(self._places[name])

    def moved(self, location: int) -> None:
        if location in self._names:
            self._moved.update(self._names[location])
            for follower in self._followers:
                self._host.activate(follower)
        if location in self._ends:
            for follower in self._end_followers:
                self._host.activate(follower)

    def follow_ends(self, operator: int) -> None:
        """Schedule an operator whenever all workers may have processed a further time."""
        self._end_followers.add(operator)

    def has_processed(self, time: Time) -> bool:
        """Tell whether all workers have processed all records of an epoch, and the records made from them.

        At least one operator must ask for the ends; see `Plan.ends`.
        """
        for location, nesting in self._ends.items():
            epochs = nesting.coordinate_domains[0]
            for element in self._host.frontier(location):
                if epochs.less_equal(nesting.coordinates(element)[0], time):
                    return False
        return True

    def drain_moved(self) -> set[str]:
        """Return the probes that have moved since the last call; the first call returns all."""
        moved, self._moved = self._moved, set()
        return moved

    def follow(self, operator: int, name: str) -> Antichain:
        """Return the frontier at a probe; from now on, schedule an operator whenever any probe moves.

        Raise GraphError if there is no such probe.
        """
        if name not in self._places:
            raise GraphError(f"dataflow {self._dataflow!r} has no probe {name!r}; it has {sorted(self._places)}")
        self._followers.add(operator)
        return self.frontier(name)
