"""The build functions of collections: they connect the machines of `tidewheel.differential` to tokens and frontiers.

Loaded when a program makes a collection, as it loads NumPy.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import add
from typing import TypeAlias, TypeVar

from tidewheel.differential.arrangements import Arrangements
from tidewheel.differential.batch import Batch
from tidewheel.differential.codes import Interned
from tidewheel.differential.consolidation import consolidated
from tidewheel.differential.joining import Join, Joined
from tidewheel.differential.looking_up import LookUpState
from tidewheel.differential.records import Array, Column, array_of, rows_of
from tidewheel.differential.reducing import ReduceState
from tidewheel.differential.reductions import Reduction
from tidewheel.differential.shared_arrangement import Number, SharedArrangement
from tidewheel.differential.updates import MOST_ROWS, FlatTime, flat, lower_bound, nested, portions, split_by_time
from tidewheel.operators.collections.pacts import owners_of_columns
from tidewheel.operators.epochs.division import Division, split_batches
from tidewheel.operators.epochs.gathered_epochs import build_gathered
from tidewheel.operators.records.batchwise import build_batchwise
from tidewheel.progress import Antichain, Time
from tidewheel.runtime import Build, InputPort, LentToken, OperatorContext, OutputPort, Schedule
from tidewheel.runtime.state.state_pickling import declare_frozen
from tidewheel.runtime.worker.operator_context import host_of, instance_of, pacts_of
from tidewheel.runtime.worker.questions import ENDED

declare_frozen(Batch, Interned)

Project: TypeAlias = Callable[[Joined], Sequence[Column]]
"""Returns the columns of the records of a join."""


def build_arrangement(depth: int, asked_by: str) -> Build:
    """Return the build function of an operator that arranges pairs by key, and sends the numbers of updates.

    Args:
        depth: the number of coordinates of times.
        asked_by: the name of the operator that has asked for it first, for errors.
    """

    def build(context: OperatorContext) -> Schedule:
        arrangement = _arrangements(context, lambda: SharedArrangement(depth, asked_by))
        host_of(context).shared[context.name] = arrangement

        def schedule(input: InputPort, output: OutputPort) -> None:
            lent = dict[FlatTime, LentToken]()
            for times, arrays in portions(_received(input, lent)):
                by_time: dict[FlatTime, list[Array]] = {}
                for time, array in zip(times, arrays, strict=True):
                    by_time.setdefault(time, []).append(array)
                for time, parts in by_time.items():
                    number = arrangement.receive(context.worker, time, parts)
                    if number is not None:
                        output.send(lent[time], [number])

        return schedule

    return build


def build_join(depth: int, project: Project, sides: Sequence[str]) -> Build:
    """Return the build function of a join, which sends the columns that ``project`` makes.

    Args:
        depth: the number of coordinates of times.
        project: makes the columns.
        sides: the names of the operators that arrange the two sides.
    """

    def build(context: OperatorContext) -> Schedule:
        join = Join(depth, context.name, [host_of(context).shared[side] for side in sides])

        def schedule(left: InputPort, right: InputPort, output: OutputPort) -> None:
            for side, port in enumerate((left, right)):
                lent = dict[FlatTime, LentToken]()
                numbers = list[Number]()
                for token, batch in port:
                    lent[flat(token.time)] = token
                    numbers += batch
                for joined in join.receive(side, numbers):
                    _send(output, lent, joined.times, array_of(project(joined), joined.diffs))
            join.let_go(_lower_bound(left.frontier), _lower_bound(right.frontier))

        return schedule

    return build


def _received(port: InputPort, lent: dict[FlatTime, LentToken]) -> Iterator[tuple[FlatTime, Array]]:
    """Yield what has arrived, each array behind its time, and note the token for that."""
    for token, array in port:
        time = flat(token.time)
        lent[time] = token
        yield time, array


def _send(output: OutputPort, lent: dict[FlatTime, LentToken], times: Sequence[Column], array: Array) -> None:
    """Send updates at their times, each at or after one for which a token was lent."""
    for time, rows in split_by_time(times):
        if time in lent:
            output.send(lent[time], rows_of(array, rows))
        else:
            before = next(
                token for early, token in lent.items() if all(a <= b for a, b in zip(early, time, strict=True))
            )
            with before.delayed(nested(time)) as later:
                output.send(later, rows_of(array, rows))


def build_reduce(depth: int, reduction: Reduction) -> Build:
    """Return the build function of a reduction; times have ``depth`` coordinates."""

    def build(context: OperatorContext) -> Schedule:
        make = partial(ReduceState, depth, context.name, keeps_values=reduction.keeps_values)
        state = _arrangements(context, make)
        pact = pacts_of(context)[0]
        parts = Division(lambda batches, workers: split_batches(batches, pact, workers), add)
        held: dict[Time, list[Array]] = parts.of_each().state(context, "held", dict)
        rows: Counter[Time] = Counter()
        notificator = context.notificator()

        def schedule(input: InputPort, output: OutputPort) -> None:
            for lent, array in input:
                arrays = held.setdefault(lent.time, [])
                arrays.append(array)
                rows[lent.time] += len(array)
                if rows[lent.time] > max(MOST_ROWS, 2 * len(arrays[0])):
                    arrays[:] = [consolidated(arrays)]
                    rows[lent.time] = len(arrays[0])
                notificator.notify_at(lent)
            for token in notificator.ready(input):
                del rows[token.time]
                array, later = state.complete(flat(token.time), _drained(held.pop(token.time, [])), reduction)
                if array is not None:
                    output.send(token, array)
                for time in later:
                    notificator.notify_at(token.delayed(nested(time)))
            state.let_go(_lower_bound((*input.frontier, *notificator.times)))

        return schedule

    return build


def build_lookups(context: OperatorContext) -> Schedule:
    """Build an operator that keeps a collection for look-ups. It answers as of times that its frontier has passed."""
    state = _arrangements(context, lambda: LookUpState(context.name))
    questions, number = host_of(context).questions, instance_of(context).number

    def answer(input: InputPort) -> int:
        """Answer what can be answered; return the newest epoch that is complete."""
        least = _lower_bound(input.frontier)
        newest = ENDED if least is None else least[0] - 1
        questions.answer(number, newest, state.since, state.read)
        return newest

    def schedule(input: InputPort) -> None:
        questions.when_asked(number, partial(answer, input))
        for token, array in input:
            state.receive(flat(token.time), array)
        newest = answer(input)
        if 0 <= newest < ENDED:  # in the end it keeps its last epoch, too, as somebody may know that only
            state.let_go(questions.since(number, newest))

    return schedule


def _drained(arrays: list[Array]) -> Iterator[Array]:
    """Yield arrays, and let go of each when the next is asked for."""
    arrays.reverse()
    while arrays:
        yield arrays.pop()


def build_consolidate() -> Build:
    """Return the build function of an operator that sends the sum of the updates of each time, once it is complete."""
    return build_gathered(1, lambda kept, arrays, token: [[consolidated(arrays[0])]])


State = TypeVar("State", bound=Arrangements)


def _arrangements(context: OperatorContext, make: Callable[[], State]) -> State:
    """Return the arrangements of an operator, which belong to the workers that own the keys."""
    division = Division(lambda state, workers: state.divided(owners_of_columns, workers, make), lambda a, b: a.add(b))
    return division.state(context, "arrangements", make)


def _lower_bound(times: Antichain | Iterable[Time]) -> FlatTime | None:
    return lower_bound([flat(time) for time in times])


def build_rounds(most: int) -> Build:
    """Return the build function of an operator before a feedback that lets a loop have at most so many rounds."""
    return build_batchwise(lambda batch, time, worker: [batch if time[1] + 1 < most else None])
