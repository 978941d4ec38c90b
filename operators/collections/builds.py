"""The build functions of collections: they connect `tidewheel.differential`, which does no I/O, to the runtime."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TypeAlias

from tidewheel.differential.batch import Batch
from tidewheel.differential.codes import Interned, is_hashable
from tidewheel.differential.consolidation import consolidated
from tidewheel.differential.joining import Join, Joined
from tidewheel.differential.looking_up import look_up
from tidewheel.differential.records import Array, Column, array_of, decode, rows_of
from tidewheel.differential.reducing import Reducer
from tidewheel.differential.reductions import Reduction
from tidewheel.differential.shared_arrangement import Number, SharedArrangement
from tidewheel.differential.updates import (
    MOST_ROWS,
    FlatTime,
    drained,
    flat,
    lower_bound,
    nested,
    portions,
    split_by_time,
)
from tidewheel.operators.base.batchwise import build_batchwise
from tidewheel.operators.base.division import Division, by_input
from tidewheel.operators.collections.pacts import owners_of_columns
from tidewheel.operators.epochs.gathered_epochs import build_gathered
from tidewheel.operators.joins.unlike_keys import UnlikeKeys
from tidewheel.progress import Antichain, Time
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.messages.questions import ENDED
from tidewheel.runtime.state.state_pickling import declare_frozen
from tidewheel.runtime.tokens.timestamp_token import LentToken
from tidewheel.runtime.worker.failure import PartError
from tidewheel.runtime.worker.operator_context import OperatorContext, host_of, instance_of, pacts_of, sender_of
from tidewheel.runtime.worker.ports import InputPort, OutputPort

declare_frozen(Batch, Interned)

Held: TypeAlias = dict[Time, list[list[Array]]]
"""The arrays held for each time; the outer list has one element."""

_MANY_ARRAYS = 1 << 6
"""Arrays of one time with few rows in all are held and arranged together, but at most as many as this."""

Project: TypeAlias = Callable[[Joined], Sequence[Column]]
"""Returns the columns of the records of a join."""


def build_arrangement(depth: int, asked_by: str, *, by_record: bool) -> Build:
    """Build an operator that arranges records, or pairs by key, and sends numbers of updates.

    Errors name ``asked_by``, the first operator that needs the arrangement.
    """

    def build(context: OperatorContext) -> Schedule:
        arrangement = _arrangement(context, depth, asked_by, by_record=by_record)

        def schedule(input: InputPort, output: OutputPort) -> None:
            for lent, number in _arranged(arrangement, context, input):
                output.send(lent, [number])

        return schedule

    return build


def _arrangement(
    context: OperatorContext, depth: int, asked_by: str, *, by_record: bool, side: str | None = None
) -> SharedArrangement:
    """Return the arrangement of the operator ``side``; without it, a new one of this operator."""
    if side is not None:
        found: SharedArrangement = host_of(context).shared[side]
        return found
    make = partial(SharedArrangement, depth, asked_by, by_record=by_record)
    division = Division(lambda state, workers: state.divided(owners_of_columns, workers, make), lambda a, b: a.add(b))
    arrangement = division.state(context, "arrangement", make)
    host_of(context).shared[context.name] = arrangement
    return arrangement


def _arranged(
    arrangement: SharedArrangement, context: OperatorContext, port: InputPort
) -> Iterator[tuple[LentToken, Number]]:
    arrived: dict[FlatTime, tuple[LentToken, list[Array]]] = {}
    for token, array in port:
        arrived.setdefault(flat(token.time), (token, []))[1].append(array)
    for time, (token, arrays) in arrived.items():
        for number in _numbered(arrangement, context, time, arrays):
            yield token, number


def _numbered(
    arrangement: SharedArrangement, context: OperatorContext, time: FlatTime, arrays: list[Array]
) -> Iterator[Number]:
    for _, parts in portions((time, array) for array in drained(arrays)):
        try:
            number = arrangement.receive(context.worker, time, parts)
        except TypeError as error:
            for record in chain.from_iterable(map(decode, parts)):  # the report of the failure shows `record`
                if not is_hashable(record):
                    what = f"could not arrange a record of {sender_of(context)!r}"
                    raise PartError(context.name, None, what) from error
            raise
        if number is not None:
            yield number


def _numbers(port: InputPort) -> Iterator[tuple[LentToken, Number]]:
    for token, batch in port:
        for number in batch:
            yield token, number


def build_join(depth: int, project: Project, sides: Sequence[str]) -> Build:
    """Build a join, which sends the columns that ``project`` makes. The operators ``sides`` arrange its two inputs."""

    def build(context: OperatorContext) -> Schedule:
        join = Join(depth, context.name, [host_of(context).shared[side] for side in sides])
        unlike_keys = UnlikeKeys(context)

        def schedule(left: InputPort, right: InputPort, output: OutputPort) -> None:
            for side, port in enumerate((left, right)):
                lent: dict[FlatTime, LentToken] = {}
                for joined in join.receive(side, _noting(port, lent)):
                    _send(output, lent, joined.times, array_of(project(joined), joined.diffs))
            if not unlike_keys.is_compared:
                unlike_keys.compare(*join.some_keys())
            join.let_go(_lower_bound(left.frontier), _lower_bound(right.frontier))

        return schedule

    return build


def _noting(port: InputPort, lent: dict[FlatTime, LentToken]) -> Iterator[list[Number]]:
    for token, numbers in port:
        lent[flat(token.time)] = token
        yield numbers


def _send(output: OutputPort, lent: dict[FlatTime, LentToken], times: Sequence[Column], array: Array) -> None:
    for time, rows in split_by_time(times):
        if time in lent:
            output.send(lent[time], rows_of(array, rows))
        else:
            before = next(
                token for early, token in lent.items() if all(a <= b for a, b in zip(early, time, strict=True))
            )
            with before.delayed(nested(time)) as later:
                output.send(later, rows_of(array, rows))


def build_reduce(depth: int, reduction: Reduction, side: str | None) -> Build:
    """Build a reduction. The operator ``side`` arranges its input.

    If ``side`` is None, the reduction arranges its input itself, and sends the numbers of updates to other operators.
    """

    def build(context: OperatorContext) -> Schedule:
        arrangement = _arrangement(context, depth, context.name, by_record=reduction.form != "pair", side=side)
        reducer = Reducer(arrangement, context.name, reduction)
        notificator = context.notificator()

        held: Held = by_input(pacts_of(context)).of_each().state(context, "held", dict)
        arrange = partial(_numbered, arrangement, context)

        def schedule(input: InputPort, output: OutputPort, *readers: OutputPort) -> None:
            if side is None and not readers:
                for time in _held(input, held, notificator.notify_at):
                    reducer.receive(flat(time), arrange(flat(time), *held[time]))
            else:
                for lent, number in _numbers(input) if side else _arranged(arrangement, context, input):
                    for reader in readers:
                        reader.send(lent, [number])
                    reducer.receive(flat(lent.time), [number])
                    notificator.notify_at(lent, output)
            for token in notificator.ready(input):
                reducer.receive(flat(token.time), arrange(flat(token.time), *held.pop(token.time, [[]])))
                arrays, later = reducer.complete(flat(token.time))
                for array in drained(arrays):
                    output.send(token, array)
                for time in later:
                    notificator.notify_at(token.delayed(nested(time)))
            reducer.let_go(_lower_bound((*input.frontier, *notificator.times)))

        return schedule

    return build


def _held(port: InputPort, held: Held, notify_at: Callable[[LentToken], None]) -> Iterator[Time]:
    """Hold updates until their time is complete; yield a time when its held updates should be arranged already."""
    for lent, array in port:
        (arrays,) = held.setdefault(lent.time, [[]])
        arrays.append(array)
        notify_at(lent)
        if len(arrays) > _MANY_ARRAYS or sum(map(len, arrays)) > MOST_ROWS:
            yield lent.time


def build_lookups(side: str) -> Build:
    """Build an operator that answers look-ups at complete times. The operator ``side`` arranges the collection."""

    def build(context: OperatorContext) -> Schedule:
        arrangement = host_of(context).shared[side]
        arrangement.let_go(context.name, (0,))
        read = partial(look_up, arrangement, context.name)
        questions, number = host_of(context).questions, instance_of(context).number

        def answer(input: InputPort) -> int:
            least = _lower_bound(input.frontier)
            newest = ENDED if least is None else least[0] - 1
            questions.answer(number, newest, arrangement.since[0], read)
            return newest

        def schedule(input: InputPort) -> None:
            questions.when_asked(number, partial(answer, input))
            for _, new in _numbers(input):
                arrangement.take(context.name, new)
            newest = answer(input)
            if 0 <= newest < ENDED:  # after the end, the last epoch stays too, as a worker may know no later one
                arrangement.let_go(context.name, (questions.since(number, newest),))

        return schedule

    return build


def build_consolidate() -> Build:
    """Build an operator that sends the sum of the updates of each time, once it is complete."""
    return build_gathered(1, lambda kept, arrays, token: [consolidated(arrays[0])])


def _lower_bound(times: Antichain | Iterable[Time]) -> FlatTime | None:
    return lower_bound([flat(time) for time in times])


def build_rounds(most: int) -> Build:
    """Build an operator right before a feedback; it limits a loop to ``most`` rounds."""
    return build_batchwise(lambda batch, time, worker: [batch if time[1] + 1 < most else None])
