"""The labeller, which divides batches by the keys of their substreams, and reads the marks of ends among records."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import add
from typing import Any, ClassVar, TypeAlias

from tidewheel.batches.batches import Batch, length, records, take_slice
from tidewheel.operators.base.division import Division, everywhere, split_by_key, updated
from tidewheel.operators.keys.record_keys import Keys, as_key, as_portable_key, may_have_nan
from tidewheel.operators.keys.record_order import take
from tidewheel.operators.substreams.waiting_keys import Waiting, WaitingKeys, joined
from tidewheel.progress import Time
from tidewheel.runtime.description.pacts import BroadcastPact, Pact
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.description.shards import owner_of
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.messages.labels import MixedLabel, is_mark, labels_of, parts_by_key
from tidewheel.runtime.tokens.timestamp_token import LentToken, TimestampToken
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of
from tidewheel.runtime.worker.ports import InputPort, OutputPort, running_output

Token: TypeAlias = TimestampToken | LentToken
"""The tokens with which a labeller sends."""


def has_marks(batch: Batch) -> bool:
    return isinstance(batch, list) and any(map(is_mark, batch))


def mark_runs(batch: Batch) -> Iterator[tuple[bool, Batch]]:
    """Yield the parts of a batch, in order; each has only marks (True) or only records (False)."""
    if not has_marks(batch):
        yield False, batch
        return
    for are_marks, run in groupby(batch, is_mark):
        yield are_marks, list(run)


@dataclass(frozen=True, slots=True)
class OneCopy:
    """Records of which several workers have received copies; each reader keeps the records with its names."""

    batch: Batch
    worker: int
    workers: int


@dataclass(frozen=True, slots=True)
class MarkedPact(Pact):
    """Exchanges records by another pact, and the marks among them by their keys; keeps their order."""

    takes_marks: ClassVar[bool] = True

    records: Pact

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        if not has_marks(batch):
            return self.records.split(batch, workers)
        parts: list[list[Any]] = [[] for _ in range(workers)]
        for are_marks, run in mark_runs(batch):
            if are_marks:
                for mark in run:
                    parts[owner_of(mark.key, workers)].append(mark)
            else:
                for worker, more in enumerate(self.records.split(run, workers)):
                    parts[worker] += more or []
        return [part or None for part in parts]

    def of_rescaled(self, batch: Batch, worker: int, workers: int) -> Batch:
        """Return marks and records that must be sent again.

        Of copies that all workers receive, each worker reads a part.
        """
        if not isinstance(self.records, BroadcastPact):
            return batch
        runs = mark_runs(batch)
        return [one for are_marks, run in runs for one in (run if are_marks else [OneCopy(run, worker, workers)])]

    def describe(self) -> str:
        return self.records.describe()


@dataclass(frozen=True, slots=True)
class SubstreamKeys:
    """The division of records into substreams: by keys, or by predicates.

    Attributes:
        last: tells whether a record is the last of its substream; None if no record is.
        predicates: instead of keys, a predicate for each substream's name; it tells whether a record belongs to the
            substream.
    """

    keys: Keys
    last: Callable[[Any], Any] | None = None
    predicates: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)


_BY_KEY = Division(split_by_key, updated)
_ANEW = Division(lambda kept, workers: [None] * workers, updated)
"""The division of a state that is computed again: no worker receives a part."""


class Labeller:
    """Sends batches divided by key, and holds batches whose key may not be used again yet."""

    def __init__(self, context: OperatorContext, how: SubstreamKeys) -> None:
        gate = instance_of(context).gate
        assert gate is not None, "the plan says which operators declare substreams"
        self._gate = gate
        self._how = how
        lanes = Division(lambda kept, workers: [[kept]] * workers, add)
        self.waiting: WaitingKeys = (lanes if gate.is_shared else _BY_KEY).state(context, "waiting keys", dict)
        self._waiting_at: Counter[Time] = _ANEW.state(context, "times of waiting keys", Counter)
        self._tokens = context.notificator()
        self._names = [
            name for name in how.predicates if gate.is_shared or owner_of(name, context.workers) == context.worker
        ]
        self._has_the_rest = gate.is_shared or context.worker == 0
        union = everywhere(lambda one, other: list(dict.fromkeys([*one, *other])))
        opened: list[str] = union.state(context, "names", list)
        was_noted = bool(opened) or not gate.is_restored  # a snapshot of an earlier release has no names
        for name in [name for name in self._names if name not in opened]:
            opened.append(name)
            if was_noted:
                gate.admit(name, gate.domain.minimum())
        if instance_of(context).kept.is_rescaled:
            self._begin_rescaled(context)

    def _begin_rescaled(self, context: OperatorContext) -> None:
        """Take this worker's share of the waiting records, and tokens for them.

        The snapshot has the records by the workers of its own run.
        """
        instance = instance_of(context)
        if instance.mailbox is not None:
            lanes: Any = self.waiting  # the parts of the earlier workers, not joined
            for number, (lane, undone) in enumerate(zip(lanes, instance.mailbox.lanes, strict=True)):
                for queue in lane.values() if number % context.workers != context.worker else ():
                    queue.extend([one for _ in range(len(queue)) if (one := queue.popleft()).batch is None])
                for token, batch, is_end in undone:
                    rest = self._wait_in(lane, token, batch, is_end=is_end)
                    if rest is not None:
                        instance.mailbox.do_first(instance.name, "send", token.clone(), rest)
                    self._tokens.notify_at(token)
            instance.kept.states["waiting keys"] = self.waiting = joined(lanes)
        self._waiting_at.update(one.time for queue in self.waiting.values() for one in queue)
        self._tokens._drop_others({(time, None) for time in self._waiting_at})
        for key in self.waiting:
            self._gate.wait_again(key)

    def _wait_in(self, lane: WaitingKeys, token: TimestampToken, batch: Any, *, is_end: bool) -> Batch | None:
        parts: Iterable[tuple[Any, Any]]
        rest: Batch | None = None
        if is_end:
            parts = [(key, None) for key in portable_keys(list(map(as_key, batch)))]
        elif self._how.predicates:
            places, keys, left = self._named(batch)
            parts = parts_by_key(take(batch, places), keys) if keys else ()
            rest = take(batch, left) if left else None
        else:
            parts = parts_by_key(batch, portable_keys(self._how.keys.hashable(batch)))
        for key, part in parts:
            lane.setdefault(key, deque()).append(Waiting(token.time, part))
        return rest

    def send(self, output: OutputPort, token: Token, batch: Batch) -> None:
        """Send a batch in parts, each of one substream; raise TokenError if a record's substream has ended."""
        for are_marks, run in mark_runs(batch):
            if are_marks:
                self.end(output, token, [mark.key for mark in run])
            elif self._how.predicates:
                self._send_by_predicates(output, token, run)
            else:
                self.send_with_keys(output, token, run, portable_keys(self._how.keys.hashable(run)))

    def _send_by_predicates(self, output: OutputPort, token: Token, batch: Batch) -> None:
        if isinstance(batch, list) and isinstance(batch[0], OneCopy):
            names, has_the_rest = self._names, self._has_the_rest
            for one in batch:
                self._names = [name for name in names if owner_of(name, one.workers) == one.worker]
                self._has_the_rest = has_the_rest and not one.worker
                self._send_by_predicates(output, token, one.batch)
                self._names, self._has_the_rest = names, has_the_rest
            return
        places, keys, rest = self._named(batch)
        if keys:
            self.send_with_keys(output, token, take(batch, places), keys)
        if rest:
            running_output(output).send_labelled(token, take(batch, rest), None)

    def _named(self, batch: Batch) -> tuple[list[int], list[Any], list[int]]:
        rows = records(batch)
        places: list[int] = []
        keys: list[Any] = []
        for name in self._names:
            holds = self._how.predicates[name]
            found = [place for place, record in enumerate(rows) if holds(record)]
            places += found
            keys += [name] * len(found)
        if not self._has_the_rest:
            return places, keys, []
        some = set(places)
        if not self._gate.is_shared:
            predicates = self._how.predicates.values()
            some = {place for place, record in enumerate(rows) if any(holds(record) for holds in predicates)}
        return places, keys, [place for place in range(len(rows)) if place not in some]

    def send_with_keys(self, output: OutputPort, token: Token, batch: Batch, keys: list[Any]) -> None:
        """Send a batch of records in parts, by their `portable_keys`; raise TokenError if a substream has ended."""
        for part, of, last in self._runs(batch, keys):
            label = labels_of(self._gate.number, of)
            distinct = label.distinct if isinstance(label, MixedLabel) else label[1:]
            if all(key not in self.waiting and self._gate.admit(key, token.time) is not None for key in distinct):
                running_output(output).send_labelled(token, part, label)
            else:
                for key, rows in parts_by_key(part, of):
                    self._send_part(output, token, key, rows)
            self.end(output, token, last)

    def _runs(self, batch: Batch, keys: list[Any]) -> Iterator[tuple[Batch, list[Any], list[Any]]]:
        """Yield the parts of a batch, each with the keys of its records and the keys that end after it."""
        last = self._how.last
        ended: dict[Any, None] = {}
        start = 0
        for place, record in enumerate(records(batch) if last is not None else ()):
            if keys[place] in ended:
                yield take_slice(batch, start, place), keys[start:place], list(ended)
                start, ended = place, {}
            if last is not None and last(record):
                ended[keys[place]] = None
        yield take_slice(batch, start, length(batch)) if start else batch, keys[start:], list(ended)

    def end(self, output: OutputPort, token: Token, keys: Iterable[Any]) -> None:
        """End substreams at the token's time.

        Raises:
            TokenError: a substream has ended already, or a key is not the name of a predicate.
        """
        made = portable_keys(list(map(as_key, keys)))
        known = self._how.predicates
        unknown = [key for key in made if key not in known] if known else []
        if unknown:
            raise TokenError(
                f"an end of {unknown[0]!r} of {self._gate.name!r} came, where substreams have the names "
                f"{', '.join(map(repr, known))}"
            )
        later = set(self._gate.close([key for key in made if key not in self.waiting], token.time))
        if later or self.waiting:
            for key in made:
                if key in later or key in self.waiting:
                    self._wait(output, token, key, Waiting(token.time, None))

    def go_on(self, output: OutputPort) -> None:
        """Send held batches whose key may be used again."""
        for key in self._gate.take_reopened():
            waiting = self.waiting.pop(key, deque())
            while waiting and self._is_done(output, key, waiting[0]):
                waiting.popleft()
            if waiting:
                self.waiting[key] = waiting

    def _is_done(self, output: OutputPort, key: Any, one: Waiting) -> bool:
        with self._tokens.take(one.time) as token:
            if one.batch is None:
                is_done = not self._gate.close([key], one.time)
            else:
                is_done = self._sent(output, token, key, one.batch)
            self._waiting_at[one.time] -= is_done
            if self._waiting_at[one.time]:
                self._tokens.notify_at(token.clone())
            else:
                del self._waiting_at[one.time]
        return is_done

    def pass_to(self, may_come: Callable[[Time], bool], *, has_ended: bool) -> None:
        """Forget ends at times that no more records can have; with ``has_ended``, end all substreams."""
        self._gate.pass_to(may_come)
        if has_ended and self.waiting:
            self._gate.end(self.waiting)
        elif has_ended:
            self._gate.finish()

    def _send_part(self, output: OutputPort, token: Token, key: Any, part: Batch) -> None:
        if key in self.waiting or not self._sent(output, token, key, part):
            self._wait(output, token, key, Waiting(token.time, part))

    def _sent(self, output: OutputPort, token: Token, key: Any, part: Batch) -> bool:
        label = self._gate.admit(key, token.time)
        if label is None:
            return False
        running_output(output).send_labelled(token, part, label)
        return True

    def _wait(self, output: OutputPort, token: Token, key: Any, what: Waiting) -> None:
        if not self._waiting_at[what.time]:
            self._tokens.notify_at(token.clone() if isinstance(token, TimestampToken) else token, output)
        self._waiting_at[what.time] += 1
        self.waiting.setdefault(key, deque()).append(what)


def portable_keys(keys: list[Any]) -> list[Any]:
    """Return keys in a form that is equal in every process, also for NaN."""
    distinct = set(keys)
    if not may_have_nan(distinct):
        return keys
    made = {key: as_portable_key(key) for key in distinct}
    return list(map(made.__getitem__, keys))


def build_declare(how: SubstreamKeys) -> Build:
    """Build an operator that divides records into substreams, and declares the end of each substream."""

    def build(context: OperatorContext) -> Schedule:
        labeller = Labeller(context, how)

        def schedule(input: InputPort, output: OutputPort) -> None:
            labeller.go_on(output)
            for token, batch in input:
                labeller.send(output, token, batch)
            frontier = input.frontier
            labeller.pass_to(frontier.less_equal, has_ended=not len(frontier))

        return schedule

    return build
