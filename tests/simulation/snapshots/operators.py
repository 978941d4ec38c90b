"""Operators that keep tokens and records across steps, in every place that snapshots look at.

What each sends at each time follows from what it receives, on any number of workers. When it does so is up to chance.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.simulation.snapshots.world import Record, World, made_of
from tidewheel.progress import Summary, Time
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.description.shards import owners_of
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.tokens.token_set import TokenSet
from tidewheel.runtime.worker.operator_context import OperatorContext
from tidewheel.runtime.worker.ports import InputPort, OutputPort, running_output

FOR_EVER = 1.0
"""The chance to wait of an operator that sends nothing before the end is wanted."""

OWNED = {"held", "waiting", "due", "pending", "values", "records", "partitions"}
"""The names of what is kept by the keys by which records are exchanged."""

_GROUPS = 4
_FILLERS = range(1000, 1040)


def group_of(record: Record) -> int:
    """Return the key by which records are grouped."""
    return record[0] % _GROUPS


def operator(world: World, make: Callable[[World, OperatorContext], Schedule]) -> Build:
    """Return the build function of one of the operators below, which takes part."""

    def build(context: OperatorContext) -> Schedule:
        world.enlist(context)
        return make(world, context)

    return build


def hold(moves: Sequence[Summary], chance: float, world: World, context: OperatorContext) -> Schedule:
    """Keep a token and the records for each output, substream and time, at or after that of the message."""
    held: dict[tuple[int, Time, Any], tuple[TimestampToken, list[Record]]] = context.state(
        "held", dict, split=_to_first, merge=_merged(lambda one, other: one[1].extend(other[1]))
    )

    def schedule(input: InputPort, *outputs: OutputPort) -> None:
        for lent, record in world.read(context, input):
            number = record[0] % len(outputs)
            place = number, _moved(moves, record, outputs[number], lent.time), lent.label
            if place not in held:
                held[place] = lent.delayed(place[1], outputs[number]), []
            held[place][1].append(record)
        for place in [place for place in held if not world.waits(chance)]:
            token, records = held.pop(place)
            with token:
                outputs[place[0]].send(token, records)
        world.come_back(context)

    return schedule


def hold_by_key(moves: Sequence[Summary], chance: float, world: World, context: OperatorContext) -> Schedule:
    """Keep a token for each record, by its key."""
    held: dict[int, list[tuple[TimestampToken, Record]]] = context.keyed_state("held")

    def schedule(input: InputPort, output: OutputPort) -> None:
        for lent, record in world.read(context, input):
            token = lent.delayed(_moved(moves, record, output, lent.time))
            held.setdefault(record[0], []).append((token, record))
        for key in [key for key in held if not world.waits(chance)]:
            while held[key] and not world.waits(0.3):
                token, record = held[key].pop()
                with token:
                    output.send(token, [record])
            if not held[key]:
                del held[key]
        world.come_back(context)

    return schedule


def hold_in_set(moves: Sequence[Summary], chance: float, world: World, context: OperatorContext) -> Schedule:
    """Keep a set of tokens, and the records for each time."""
    held: dict[Time, list[Record]] = context.state("records", dict, split=_to_first, merge=_merged(list.extend))
    tokens = context.state("tokens", TokenSet, split=_to_first, merge=_merged_sets)

    def schedule(input: InputPort, output: OutputPort) -> None:
        for lent, record in world.read(context, input):
            time = _moved(moves, record, output, lent.time)
            tokens.insert(lent.delayed(time))
            held.setdefault(time, []).append(record)
        for time in [time for time in held if not world.waits(chance)]:
            with tokens.delayed(time) as token:
                output.send(token, held.pop(time))
        tokens.downgrade(list(held))
        world.come_back(context)

    return schedule


def notified_later(moves: Sequence[Summary], world: World, context: OperatorContext) -> Schedule:
    """Keep tokens for later times by key, and hand them to a notificator once the time of their records is complete."""
    waiting: dict[int, list[tuple[TimestampToken, Time, Record]]] = context.keyed_state("waiting")
    due = context.keyed_state("due")
    first, second = context.notificator(), context.notificator()

    def hand_over(done: Time) -> None:
        for key, entries in list(waiting.items()):
            for token, _, record in (entry for entry in entries if entry[1] == done):
                due.setdefault(key, {}).setdefault(token.time, []).append(record)
                second.notify_at(token)
            waiting[key] = [entry for entry in entries if entry[1] != done]

    def schedule(input: InputPort, output: OutputPort) -> None:
        for lent, record in world.read(context, input):
            first.notify_at(lent)
            token = lent.delayed(_moved(moves, record, output, lent.time))
            waiting.setdefault(group_of(record), []).append((token, lent.time, record))
        for done in first.ready(input, sequential=False):
            hand_over(done.time)
        for token in second.ready(input):
            for group, records in _taken(due, token.time):
                output.send(token, [made_of((group, sorted(records)), min(hops for _, hops in records))])

    return schedule


def table(world: World, context: OperatorContext) -> Schedule:
    """Keep a value for each number, and change it in all ways in which a mapping can be changed."""
    pending, values = context.keyed_state("pending"), context.keyed_state("values")
    owners = owners_of(list(_FILLERS), context.workers)
    fillers = [key for key, owner in zip(_FILLERS, owners, strict=True) if owner == context.worker]
    if not values:
        values.update({key: key for key in fillers})
    notificator = context.notificator()

    def schedule(input: InputPort, output: OutputPort) -> None:
        for lent, record in world.read(context, input):
            notificator.notify_at(lent)
            pending.setdefault(record[0], {}).setdefault(lent.time, []).append(record)
        for token in notificator.ready(input):
            for key, records in _taken(pending, token.time):
                for _, hops in sorted(records):
                    _change(values, key, key * 5 + len(records) + len(repr(token.time)) + hops)
                    output.send(token, [made_of((key, dict.get(values, key)), hops)])
        for key in fillers:  # of these nothing is sent
            if world.waits(0.02) and values.pop(key, None) is None:
                values[key] = -key

    return schedule


def _change(values: dict[int, Any], key: int, choice: int) -> None:
    """Change the value of a key; nobody asks for the others."""
    match choice % 9:
        case 0:
            values.pop(key, None)
        case 1:
            values[key] = choice
        case 2 if isinstance(values.get(key), list):
            values[key].append(choice)
        case 3:
            values.setdefault(key, [choice])
        case 4 if key in values:
            del values[key]
        case 5:
            values.update({key: (choice, "x")})
        case 6:
            for number, value in values.items():
                if number == key and isinstance(value, list):
                    value.append(choice)
        case _:
            values[key] = [*(values[key] if isinstance(values.get(key), list) else ()), choice][-4:]


def look_up(world: World, context: OperatorContext) -> Schedule:
    """Let those records pass whose number has come on the other side before, where each worker receives all."""
    kept = context.keyed_state("records")
    known: dict[int, Time] = context.state("known", dict, split=lambda known, workers: [known] * workers, merge=_least)
    notificator = context.notificator()

    def schedule(input: InputPort, other: InputPort, output: OutputPort) -> None:
        for lent, (number, _) in world.read(context, other):
            known[number] = min(known.get(number, lent.time), lent.time)
        for lent, record in world.read(context, input):
            notificator.notify_at(lent)
            kept.setdefault(group_of(record), {}).setdefault(lent.time, []).append(record)
        for token in notificator.ready(input, other):
            for _, records in _taken(kept, token.time):
                passing = [record for record in records if record[0] in known and known[record[0]] <= token.time]
                output.send(token, passing)

    return schedule


def source(partitions: Sequence[Sequence[tuple[Time, Record]]], world: World, context: OperatorContext) -> Schedule:
    """Send what some partitions have; the token of each is kept by its number."""
    left: dict[int, tuple[TimestampToken, int]] = context.keyed_state("partitions")

    def begin() -> bool:
        numbers = list(range(len(partitions)))
        with context.token() as token:
            for number, owner in zip(numbers, owners_of(numbers, context.workers), strict=True):
                if owner == context.worker:
                    left[number] = token.clone(), 0
        return True

    context.state("has begun", begin, split=lambda begun, workers: [begun] * workers, merge=lambda one, _: one)

    def schedule(output: OutputPort) -> None:
        for number in list(left):
            while number in left and not world.waits(0.6) and not context.is_held:
                token, at = left[number]
                if at == len(partitions[number]):
                    del left[number]
                    token.discard()
                else:
                    time, record = partitions[number][at]
                    token.downgrade(time)
                    output.send(token, [record])
                    left[number] = token, at + 1
        if left and world.draining:
            context.activate()
        world.come_back(context)

    return schedule


def _taken(kept: dict[int, dict[Time, list[Record]]], time: Time) -> Iterable[tuple[int, list[Record]]]:
    """Return the records of a time by key, and keep them no more."""
    found = [(key, records) for key in list(kept) if (records := kept[key].pop(time, None))]
    for key, _ in found:
        if not kept[key]:
            del kept[key]
    return found


def _moved(moves: Sequence[Summary], record: Record, output: OutputPort, time: Time) -> Time:
    moved = running_output(output).domain.results_in(moves[record[0] % len(moves)], time)
    return time if moved is None else moved


def _to_first(kept: Any, workers: int) -> list[Any]:
    return [kept, *(type(kept)() for _ in range(workers - 1))]


def _merged(add: Callable[[Any, Any], None]) -> Callable[[Any, Any], Any]:
    """Return what joins two dicts, and values of the same key by ``add``."""

    def merge(one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
        for key in other.keys() & one.keys():
            add(one[key], other[key])
        return {**other, **one}

    return merge


def _merged_sets(one: TokenSet, other: TokenSet) -> TokenSet:
    for token in other:
        one.insert(token)
    return one


def _least(one: dict[int, Time], other: dict[int, Time]) -> dict[int, Time]:
    return {key: min(kept[key] for kept in (one, other) if key in kept) for key in {**one, **other}}
