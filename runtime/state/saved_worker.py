"""The saved state of workers, and the share of each worker in a later job.

With the same number of workers, each gets its own state back. Otherwise keyed state is divided by shards, messages by
the pacts of their edges, and other state by its operator's ``split``. Messages of edges without pact, and pending work
of inputs, move from worker ``w`` to worker ``w`` modulo the new number of workers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from tidewheel.progress import Time
from tidewheel.runtime.description.pacts import BroadcastPact, Pact
from tidewheel.runtime.description.plan import OperatorPlan, Plan
from tidewheel.runtime.errors import SnapshotError
from tidewheel.runtime.messages.envelope import InputAction
from tidewheel.runtime.messages.unread import Unread
from tidewheel.runtime.state.keyed_state import KeyedChanges
from tidewheel.runtime.state.operator_state import CAPTURED, SavedOperator
from tidewheel.runtime.state.worker_part import MailboxPart, SavedMailbox, outcome_of
from tidewheel.runtime.substreams.substream_part import SubstreamPart
from tidewheel.runtime.substreams.substream_share import KeysInUse, SubstreamShare


@dataclass(slots=True)
class SavedOnWorker:
    """The state of one operator on one worker.

    Attributes:
        formats: by name of a state, how many ``migrate=`` functions were applied to it so far; missing for none.
    """

    states: dict[str, bytes] = field(default_factory=dict)
    formats: dict[str, int] = field(default_factory=dict)
    times: list[bytes] = field(default_factory=list)
    keyed: dict[str, KeyedChanges] = field(default_factory=dict)
    frozen: dict[str, bytes] = field(default_factory=dict)
    unread: dict[int, list[Unread]] = field(default_factory=dict)
    mailbox: MailboxPart | None = None
    substreams: SubstreamPart | None = None


@dataclass(slots=True)
class SavedWorker:
    """The state of one worker: its number, and its operators by name."""

    worker: int
    operators: dict[str, SavedOnWorker] = field(default_factory=dict)


@dataclass(slots=True)
class WorkerBeginning:
    number: int = 0
    operators: dict[str, SavedOperator] = field(default_factory=dict)
    unread: dict[str, dict[int, list[Unread]]] = field(default_factory=dict)
    mailboxes: dict[str, SavedMailbox] = field(default_factory=dict)
    substreams: dict[str, SubstreamPart] = field(default_factory=dict)


def beginning(number: int, plan: Plan, saved: Sequence[SavedWorker], worker: int, workers: int) -> WorkerBeginning:
    """Return the initial state of worker ``worker`` among ``workers``, from the ``saved`` workers.

    Raises:
        SnapshotError: an operator has fewer inputs than before, or does not allow another number of workers.
    """
    made = WorkerBeginning(number)
    if len(saved) == workers:
        own: Sequence[SavedWorker] = [saved[worker]]
    else:
        own = saved
    parts = [one.substreams for each in own for one in each.operators.values() if one.substreams is not None]
    in_use = KeysInUse(parts if len(saved) != workers else ())
    shared = {plan.operators[one.operator].name for one in plan.declarations.values() if one.is_shared}
    for operator in plan.operators:
        had = [(one.worker, one.operators[operator.name]) for one in own if operator.name in one.operators]
        if had:
            is_shared, is_rescaled = operator.name in shared, len(saved) != workers
            share = _Share(operator, had, worker, workers, in_use, is_shared=is_shared, is_rescaled=is_rescaled)
            made.operators[operator.name] = share.kept()
            made.unread[operator.name] = share.unread()
            mailbox = share.mailbox()
            if mailbox is not None:
                made.mailboxes[operator.name] = mailbox
            substreams = share.substreams()
            if substreams is not None:
                made.substreams[operator.name] = substreams
    return made


@dataclass(frozen=True, slots=True)
class _Share:
    operator: OperatorPlan
    had: Sequence[tuple[int, SavedOnWorker]]
    worker: int
    workers: int
    in_use: KeysInUse
    is_shared: bool
    """Whether the operator is an input with substreams, so that every worker admits and closes each key."""
    is_rescaled: bool

    def kept(self) -> SavedOperator:
        ones = [one for _, one in self.had]
        self._check_inputs(ones)
        self._check_keys_arrive(ones)
        return SavedOperator(
            self.worker,
            self.workers,
            self.is_rescaled,
            {name: [one.states[name] for one in ones if name in one.states] for name in _names(o.states for o in ones)},
            {name: [one.keyed[name] for one in ones if name in one.keyed] for name in _names(o.keyed for o in ones)},
            list(_transposed([one.times for one in ones])),
            {name: number for one in ones for name, number in one.formats.items()},
            {name: data for one in ones for name, data in one.frozen.items()},
        )

    def _check_inputs(self, ones: Sequence[SavedOnWorker]) -> None:
        name, inputs = self.operator.name, len(self.operator.sources)
        if any(port >= inputs for one in ones for port, left in one.unread.items() if left):
            raise SnapshotError(
                f"operator {name!r} has {inputs} input(s), and records wait in the snapshot at one more: give it the "
                "inputs that it had. To go on without what it had, give it another name= and run with "
                f"Snapshots(..., without=[{name!r}])"
            )

    def _check_keys_arrive(self, ones: Sequence[SavedOnWorker]) -> None:
        """Raise SnapshotError if keyed state would move while records for it wait at an input without an exchange.

        Such records stay on their worker, whichever worker now owns their keys.
        """
        by_key = {name for one in ones for name in one.keyed if name != CAPTURED}
        waits = any(left and self.operator.pacts[port] is None for one in ones for port, left in one.unread.items())
        if self.is_rescaled and by_key and waits:
            raise SnapshotError(
                f"operator {self.operator.name!r} keeps {min(by_key)!r} by key, and records wait at its input without "
                "exchange=. So it cannot go on with another number of workers: give it exchange="
            )

    def unread(self) -> dict[int, list[Unread]]:
        found: dict[int, list[Unread]] = {}
        for number, one in self.had:
            for port, messages in one.unread.items():
                if messages:
                    pact = self.operator.pacts[port]
                    own = (self._own(number, pact, message) for message in messages)
                    found.setdefault(port, []).extend(chain.from_iterable(own) if self.is_rescaled else messages)
        return found

    def _own(self, number: int, pact: Pact | None, message: Unread) -> Iterable[Unread]:
        if isinstance(pact, BroadcastPact):  # each worker had a copy
            return [message] if number == self.worker % len(self.had) else []
        if pact is None:
            return [message] if self._inherits(number) else []
        batch = pact.of_rescaled(message.batch, number, len(self.had))
        parts = pact.for_worker(0).labelled_parts(batch, self.workers, message.label)
        return [Unread(message.time, part, label) for owner, part, label in parts if owner == self.worker]

    def _inherits(self, number: int) -> bool:
        return number % self.workers == self.worker

    def substreams(self) -> SubstreamPart | None:
        parts = [one.substreams for _, one in self.had if one.substreams is not None]
        if not self.is_rescaled or not parts:
            return parts[0] if parts else None
        pacts = self.operator.pacts
        share = SubstreamShare(self.operator.name, pacts, parts, self.in_use, self.worker, self.workers)
        return share.part(lambda number, port, it: self._own(number, pacts[port], it), is_shared=self.is_shared)

    def mailbox(self) -> SavedMailbox | None:
        found = [(number, outcome_of(one.mailbox)) for number, one in self.had if one.mailbox is not None]
        if not found:
            return None
        tokens: dict[int, Time] = {}
        lanes: list[list[tuple[InputAction, Time, Any]]] = []
        for number, one in found:
            tokens.update(one.tokens)
            is_own = not self.is_rescaled or self._inherits(number)
            lanes.append([each for each in one.first if is_own or each[0] == "end"])
        if self.is_rescaled and self.is_shared:
            return SavedMailbox(tokens, [], lanes)
        return SavedMailbox(tokens, list(chain.from_iterable(lanes)))


def _names(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(mappings)))


def _transposed(rows: Sequence[Sequence[Any]]) -> Iterable[list[Any]]:
    return ([row[place] for row in rows if place < len(row)] for place in range(max(map(len, rows), default=0)))
