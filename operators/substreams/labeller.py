"""Dividing batches by the keys of their substreams, on one worker."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidewheel.operators.keys.record_keys import Keys, as_key, as_portable_key, may_have_nan
from tidewheel.operators.keys.record_order import take
from tidewheel.operators.substreams.marked_key import has_marks, mark_runs
from tidewheel.progress import Time
from tidewheel.runtime import LentToken, TimestampToken, TokenError
from tidewheel.runtime.description.stable_hash import stable_hash
from tidewheel.runtime.substreams.gate import SubstreamGate
from tidewheel.runtime.substreams.labels import MixedLabel, labels_of, parts_by_key
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of
from tidewheel.runtime.worker.ports import OutputPort, running_output
from tidewheel.transport.batches import Batch, length, records, take_slice


@dataclass(frozen=True, slots=True)
class SubstreamKeys:
    """How records are divided.

    Attributes:
        keys: how the key of a record is found.
        last: tells whether a record is the last of its substream; None if no record tells.
        predicates: says, instead of keys, for each of some names which records belong to it; by default there is none.
    """

    keys: Keys
    last: Callable[[Any], Any] | None = None
    predicates: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)


@dataclass(slots=True)
class _Waiting:
    """What waits until a key may be used again: a batch, or an end, which has none."""

    time: Time
    batch: Batch | None
    ended_at: Time = None


class Labeller:
    """Sends batches divided by key, and keeps back those whose keys may not be used again yet."""

    def __init__(self, context: OperatorContext, how: SubstreamKeys) -> None:
        gate = instance_of(context).gate
        assert gate is not None, "the plan says which operators declare substreams"
        self._gate: SubstreamGate = gate
        self._how = how
        self._waiting: dict[Any, deque[_Waiting]] = context.state("waiting keys", dict)
        self._waiting_at: Counter[Time] = context.state("times of waiting keys", Counter)
        self._tokens = context.notificator()
        self._names = [name for name in how.predicates if self._gate.is_shared or self._owns(context, name)]
        self._has_the_rest = self._gate.is_shared or context.worker == 0
        for name in self._names:
            self._gate.admit(name, self._gate.domain.minimum())

    @staticmethod
    def _owns(context: OperatorContext, name: str) -> bool:
        return stable_hash(name) % context.workers == context.worker

    def send(self, output: OutputPort, token: TimestampToken | LentToken, batch: Batch) -> None:
        """Send a batch in parts, each of one substream.

        Raises:
            TokenError: a substream of which there is a record has ended.
        """
        if has_marks(batch):
            for are_marks, run in mark_runs(batch):
                if are_marks:
                    self.end(output, token, [mark.key for mark in run])
                else:
                    self.send(output, token, run)
            return
        if self._how.predicates:
            self._send_by_predicates(output, token, batch)
        else:
            self.send_with_keys(output, token, batch, portable_keys(self._how.keys.hashable(batch)))

    def _send_by_predicates(self, output: OutputPort, token: TimestampToken | LentToken, batch: Batch) -> None:
        """Send each record once for each name that it belongs to; what belongs to none, as part of no substream."""
        rows = records(batch)
        places: list[int] = []
        keys: list[Any] = []
        for name in self._names:
            holds = self._how.predicates[name]
            found = [place for place, record in enumerate(rows) if holds(record)]
            places += found
            keys += [name] * len(found)
        if keys:
            self.send_with_keys(output, token, take(batch, places), keys)
        if self._has_the_rest:
            some = set(places) if self._gate.is_shared else self._of_any(rows)
            rest = [place for place in range(len(rows)) if place not in some]
            if rest:
                running_output(output).send_labelled(token, take(batch, rest), None)

    def _of_any(self, rows: list[Any]) -> set[int]:
        predicates = self._how.predicates.values()
        return {place for place, record in enumerate(rows) if any(holds(record) for holds in predicates)}

    def send_with_keys(
        self, output: OutputPort, token: TimestampToken | LentToken, batch: Batch, keys: list[Any]
    ) -> None:
        """Send a batch of records in parts, each of one substream, given their `portable_keys`.

        Raises:
            TokenError: a substream of which there is a record has ended.
        """
        label = labels_of(self._gate.number, keys)
        distinct = label.distinct if isinstance(label, MixedLabel) else label[1:]
        last = self._last_of(batch, keys)
        if last is not None and self._may_all_go(distinct, token.time):
            running_output(output).send_labelled(token, batch, label)
            self.end(output, token, last)
            return
        for key, part in parts_by_key(batch, keys):
            self._send_key(output, token, key, part)

    def _may_all_go(self, keys: Iterable[Any], time: Time) -> bool:
        return all(key not in self._waiting and self._gate.admit(key, time) is not None for key in keys)

    def _last_of(self, batch: Batch, keys: list[Any]) -> list[Any] | None:
        """Return the keys whose last record is in a batch; None if one has another record after its last."""
        if self._how.last is None:
            return []
        last = self._how.last
        ended: dict[Any, None] = {}
        for key, record in zip(keys, records(batch), strict=True):
            if key in ended:
                return None
            if last(record):
                ended[key] = None
        return list(ended)

    def _send_key(self, output: OutputPort, token: TimestampToken | LentToken, key: Any, part: Batch) -> None:
        if self._how.last is None:
            self._send_part(output, token, key, part)
        else:
            self._send_with_last(output, token, key, part, self._how.last)

    def end(
        self,
        output: OutputPort,
        token: TimestampToken | LentToken,
        keys: Iterable[Any],
        *,
        ended_at: Time | None = None,
    ) -> None:
        """End substreams, by default at the token's time.

        Raises:
            TokenError: one has ended already, or there is no predicate of that name.
        """
        time = token.time if ended_at is None else ended_at
        made = portable_keys(list(map(as_key, keys)))
        self._check_names(made)
        now = [key for key in made if key not in self._waiting] if self._waiting else made
        later = set(self._gate.close(now, time))
        if len(now) == len(made) and not later:
            return
        later.update(key for key in made if key in self._waiting)
        for key in made:
            if key in later:
                self._wait(output, token, key, _Waiting(token.time, None, time))

    def _check_names(self, keys: list[Any]) -> None:
        known = self._how.predicates
        unknown = [key for key in keys if key not in known] if known else []
        if unknown:
            raise TokenError(
                f"an end of {unknown[0]!r} of {self._gate.name!r} came, where substreams have the names "
                f"{', '.join(map(repr, known))}"
            )

    def is_open(self, key: Any) -> bool:
        """Tell whether the last that was sent of a key, or waits to be, belongs to a substream that has not ended."""
        waiting = self._waiting.get(key)
        return self._gate.is_open(key) if waiting is None else waiting[-1].batch is not None

    def go_on(self, output: OutputPort) -> None:
        """Send what has waited for keys that may be used again now."""
        for key in self._gate.take_reopened():
            waiting = self._waiting.pop(key, deque())
            while waiting and self._is_done(output, key, waiting[0]):
                waiting.popleft()
            if waiting:
                self._waiting[key] = waiting

    def _is_done(self, output: OutputPort, key: Any, one: _Waiting) -> bool:
        """Do what has waited, if its key may be used now; return whether it may."""
        with self._tokens.take(one.time) as token:
            if one.batch is None:
                is_done = not self._gate.close([key], one.ended_at)
            else:
                is_done = self._sent(output, token, key, one.batch)
            self._waiting_at[one.time] -= is_done
            if self._waiting_at[one.time]:
                self._tokens.notify_at(token.clone())
            else:
                del self._waiting_at[one.time]
        return is_done

    @property
    def is_waiting(self) -> bool:
        """Whether something waits."""
        return bool(self._waiting)

    def pass_to(self, may_come: Callable[[Time], bool]) -> None:
        """Forget what has ended at times at which nothing can come any more."""
        self._gate.pass_to(may_come)

    def finish(self) -> None:
        """End all substreams: nothing comes any more. Idempotent."""
        if self._waiting:
            self._gate.end(self._waiting)
        else:
            self._gate.finish()

    def _send_with_last(
        self,
        output: OutputPort,
        token: TimestampToken | LentToken,
        key: Any,
        part: Batch,
        last: Callable[[Any], Any],
    ) -> None:
        final = next((place for place, record in enumerate(records(part)) if last(record)), None)
        if final is None:
            self._send_part(output, token, key, part)
            return
        self._send_part(output, token, key, take_slice(part, 0, final + 1))
        self.end(output, token, [key])
        if final + 1 < length(part):
            self._send_part(output, token, key, take_slice(part, final + 1, length(part)))

    def _send_part(self, output: OutputPort, token: TimestampToken | LentToken, key: Any, part: Batch) -> None:
        if key in self._waiting or not self._sent(output, token, key, part):
            self._wait(output, token, key, _Waiting(token.time, part))

    def _sent(self, output: OutputPort, token: TimestampToken | LentToken, key: Any, part: Batch) -> bool:
        label = self._gate.admit(key, token.time)
        if label is None:
            return False
        running_output(output).send_labelled(token, part, label)
        return True

    def _wait(self, output: OutputPort, token: TimestampToken | LentToken, key: Any, what: _Waiting) -> None:
        if not self._waiting_at[what.time]:
            self._tokens.notify_at(token.clone() if isinstance(token, TimestampToken) else token, output)
        self._waiting_at[what.time] += 1
        self._waiting.setdefault(key, deque()).append(what)


def portable_keys(keys: list[Any]) -> list[Any]:
    """Return keys that are equal to themselves in every process."""
    distinct = set(keys)
    if not may_have_nan(distinct):
        return keys
    made = {key: as_portable_key(key) for key in distinct}
    return list(map(made.__getitem__, keys))
