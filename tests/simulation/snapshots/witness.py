"""A witness of what workers had when they began a snapshot, compared with what the next life begins with.

It is seen from outside: tokens as they are made, queues, links, and copies of what is kept by key. Neither a ledger nor
a part is trusted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

from tests.kit.simulation.injection import replaced
from tests.kit.simulation.violation import ViolationError
from tests.simulation.snapshots.operators import OWNED
from tests.simulation.workers.truth import unreceived
from tidewheel.batches.batches import records
from tidewheel.progress import Time
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.pacts import BroadcastPact
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.description.shards import owners_of
from tidewheel.runtime.messages.envelope import Message
from tidewheel.runtime.messages.input_position import Positions
from tidewheel.runtime.state.state_pickling import pickle_state, unpickle_state
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.worker.worker_core import WorkerCore

Port: TypeAlias = tuple[str, int]
"""(the name of an operator, the number of its input)."""

Unread: TypeAlias = Counter[tuple[Port, Time, str]]
"""The number of times that each record waits at an input, by time."""


class Tokens:
    """All tokens that are made while they are watched, with the number of their location, by identity."""

    def __init__(self) -> None:
        self._made: dict[int, dict[int, tuple[int, TimestampToken]]] = defaultdict(dict)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch."""

        def make(init: Callable[..., None]) -> Callable[..., None]:
            def watching(token: TimestampToken, ledger: Any, domain: Any, location: int, *more: Any) -> None:
                init(token, ledger, domain, location, *more)
                self._made[id(ledger)][id(token)] = location, token

            return watching

        with replaced(TimestampToken, "__init__", make):
            yield

    def of(self, core: WorkerCore) -> dict[int, tuple[int, TimestampToken]]:
        """Return those of a worker; the caller may take out those that are not live."""
        return self._made[id(core.ledger)]

    def forget(self) -> None:
        """Forget the workers of the life before."""
        self._made.clear()


@dataclass(frozen=True, slots=True)
class Had:
    """What a worker had at some moment between two steps, apart from what is fed to it.

    Attributes:
        unread: what waits at inputs of operators.
        tokens: how many tokens there are, by (number of the location, time).
        keyed: what is kept by key, by (name of the operator, name).
    """

    unread: Unread
    tokens: Counter[tuple[int, Time]]
    keyed: dict[tuple[str, str], dict[Any, str]]


class Witness:
    """Looks at workers, of which there are so many, that run a plan."""

    def __init__(self, plan: Plan, tokens: Tokens, workers: int) -> None:
        self._plan = plan
        self._tokens = tokens
        locations = list(plan.graph(workers).locations())
        self._targets = {
            number: (plan.operators[location.operator].name, location.port) for number, location in enumerate(locations)
        }
        inputs = {Source(operator, 0) for operator in plan.inputs.values()}
        self._fed = {number for number, location in enumerate(locations) if location in inputs}
        self._to_all = {
            (operator.name, port)
            for operator in plan.operators
            for port, pact in enumerate(operator.pacts)
            if isinstance(pact, BroadcastPact)
        }

    def look(self, core: WorkerCore, number: int = 0) -> Had:
        """Return what a worker has; raise ViolationError if its ledger has other tokens.

        What it holds back until it has heard the news belongs to that, up to the snapshot before ``number``.
        """
        live = Counter((at, token.time) for at, token in self._tokens.of(core).values() if token.is_live)
        if live != Counter(core.ledger.tokens()):
            raise ViolationError("ledger", f"worker {core.worker} has {live}, its ledger {core.ledger.tokens()}")
        tokens = Counter({stamp: count for stamp, count in live.items() if stamp[0] not in self._fed})
        keyed = {
            (instance.name, name): _copied(kept)
            for instance in core._instances
            for name, kept in instance.kept.by_key.items()
        }
        early = (envelope.messages for envelope in core._substreams._early if envelope.snapshot < number)
        return Had(self.records(chain(unreceived(core), *early)), tokens, keyed)

    def records(self, messages: Iterable[Message]) -> Unread:
        """Return the records of messages."""
        return Counter(
            (self._targets[message.target], message.time, repr(record))
            for message in messages
            for record in records(message.batch)
        )

    def check(self, had: Sequence[Had], cores: Sequence[WorkerCore], positions: Positions) -> None:
        """Check that workers begin with what those of the snapshot had, and no more."""
        has = [self.look(core) for core in cores]
        for core in cores:
            self._check_handles(core, positions)
            self._check_kept(core)
        if len(had) == len(has):
            for worker, (before, now) in enumerate(zip(had, has, strict=True)):
                _check_same(f"worker {worker}", before, now)
            return
        for worker, now in enumerate(has):
            unread = _only(had[worker % len(had)].unread, self._to_all)
            if unread != _only(now.unread, self._to_all):
                raise ViolationError("restored", f"worker {worker} is to receive {unread}, and has {now.unread}")
            for state, kept in now.keyed.items():
                if state[1] in OWNED and any(owner != worker for owner in owners_of(list(kept), len(has))):
                    raise ViolationError("restored", f"worker {worker} has keys of others in {state}: {list(kept)}")
        before, after = self._together(had), self._together(has)
        _check_same("all workers", before, after)

    def _together(self, each: Sequence[Had]) -> Had:
        """Return what several workers have together, but for what depends on how many they are."""
        unread: Unread = sum((one.unread for one in each), Counter())
        keyed: dict[tuple[str, str], dict[Any, str]] = defaultdict(dict)
        for one in each:
            for state, kept in one.keyed.items():
                keyed[state].update(kept)
        one_to_one = Counter({key: count for key, count in unread.items() if key[0] not in self._to_all})
        return Had(one_to_one, Counter(), dict(keyed))

    def _check_kept(self, core: WorkerCore) -> None:
        """Check that all tokens that a worker begins with are where its operators look for them."""
        kept = [(instance.kept, instance.mailbox) for instance in core._instances]
        found = [pickle_state([one.states, one.by_key, [each.tokens for each in one.notificators]]) for one, _ in kept]
        fed = [token for _, mailbox in kept if mailbox is not None for token in mailbox.tokens.values()]
        known = {id(token) for token in chain(fed, *(pickled.tokens for pickled in found))}
        lost = [token for _, token in self._tokens.of(core).values() if token.is_live and id(token) not in known]
        if lost:
            raise ViolationError("restored", f"worker {core.worker} begins with tokens that nobody has: {lost}")

    def _check_handles(self, core: WorkerCore, positions: Positions) -> None:
        for name, operator in self._plan.inputs.items():
            mailbox = core._instances[operator].mailbox
            assert mailbox is not None, "each input has one"
            times = {handle: token.time for handle, token in mailbox.tokens.items() if handle >= 0}
            said = {handle: position.time for handle, position in positions.get(name, {}).items()}
            if times != said:
                raise ViolationError("restored", f"{name} on worker {core.worker} has handles at {times}, not {said}")


def _copied(kept: dict[Any, Any]) -> dict[Any, str]:
    """Return the values as they are now, with the places of tokens."""
    copied = unpickle_state(pickle_state(kept).data, lambda place: place)  # type: ignore[arg-type,return-value]
    return {key: repr(value) for key, value in copied.items()}


def _only(unread: Unread, ports: set[Port]) -> Unread:
    return Counter({key: count for key, count in unread.items() if key[0] in ports})


def _check_same(who: str, before: Had, now: Had) -> None:
    for what in ("unread", "tokens", "keyed"):
        had, has = getattr(before, what), getattr(now, what)
        if had != has:
            raise ViolationError("restored", f"{who} had {what} {had}, and begins with {has}")
