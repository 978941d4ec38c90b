"""The operator that sends a stream round a loop."""

from collections.abc import Callable, Iterable, Sequence
from operator import add
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, overload

from tidewheel.operators.base.batchwise import build_batchwise, by_time
from tidewheel.operators.base.stream_base import (
    Record,
    Result,
    StreamBase,
    Value,
    check_function,
    check_list,
    check_positive,
    check_stream,
)
from tidewheel.operators.epochs.fold import Fold, build_per_epoch
from tidewheel.operators.epochs.gathered_epochs import build_gathered
from tidewheel.operators.keys.record_hash import GatherPact
from tidewheel.operators.keys.record_keys import Keys, Names, check_by
from tidewheel.operators.records.round_test import RoundTest
from tidewheel.progress import GraphError
from tidewheel.runtime.description.pacts import BroadcastPact

if TYPE_CHECKING:
    from tidewheel.operators.stream import Loop, Stream

Others = ParamSpec("Others")

Streams: TypeAlias = "Sequence[Stream[Any]]"

Step: TypeAlias = "Callable[Concatenate[Stream[Record], Others], Stream[Record]]"
"""The body of a loop that returns only the stream to go round again."""

Body: TypeAlias = "Callable[Concatenate[Stream[Record], Others], tuple[Stream[Record], Stream[Result]]]"
"""The body of a loop: from the records that enter or come back, it makes the records to go round again and those to
leave."""


class LoopOperators(StreamBase[Record]):
    """The methods of streams for loops."""

    __slots__ = ()

    @overload
    def iterate(
        self, body: "Body[Record, Others, Result]", *, beside: "Streams" = (), name: str = ...
    ) -> "Stream[Result]": ...

    @overload
    def iterate(
        self, body: "Step[Record, Others]", *, max_rounds: int, beside: "Streams" = (), name: str = ...
    ) -> "Stream[Record]": ...

    @overload
    def iterate(
        self,
        body: "Step[Record, Others]",
        *,
        max_rounds: int | None = None,
        until: Callable[[Value], object],
        measure: Callable[[Record], Value] | Names,
        combine: Callable[[Value, Value], Value] | None = None,
        beside: "Streams" = (),
        name: str = ...,
    ) -> "Stream[Record]": ...

    @overload
    def iterate(
        self,
        body: "Body[Record, Others, Result]",
        *,
        max_rounds: int | None = None,
        until: Callable[[Value], object] | None = None,
        measure: Callable[[Record], Value] | Names | None = None,
        combine: Callable[[Value, Value], Value] | None = None,
        beside: "Streams" = (),
        name: str = ...,
    ) -> "Stream[Record | Result]": ...

    def iterate(
        self,
        body: Callable[..., Any],
        *,
        max_rounds: int | None = None,
        until: Callable[[Any], object] | None = None,
        measure: Any = None,
        combine: Callable[[Any, Any], Any] | None = None,
        beside: "Streams" = (),
        name: str = "iterate",
    ) -> "Stream[Any]":
        """Send this stream round a loop until no record returns, a round passes a test, or ``max_rounds`` have passed.

        With ``until`` or ``beside`` the loop is bulk-synchronous: a round of an epoch begins when all workers have
        finished the previous round, so operators in the body have all its records. Otherwise each record goes round as
        soon as it can. Epochs, and the rounds of an outer loop, do not wait for each other.

        Args:
            body: gets the stream of records that enter or come back, with times ``(t, round)``. It returns two streams
                of the same scope: the first goes round again, the second leaves with time ``t``. With ``max_rounds`` or
                ``until`` it may return the first alone.
            max_rounds: how often records pass the body at most. After the last round, records that would go round again
                leave the loop unchanged, together with those that the body lets leave.
            until: a test of the combined measure of all records that are to go round again, on all workers. If it
                returns true, these records leave instead. Worker 0 calls it once for each round. Give ``max_rounds``
                as well if the test may never succeed.
            measure: a function that returns the measure of a record, or the name of a column or field.
            combine: combines two measures, in any order, such as ``max``; by default their sum. The last digits of a
                sum of floats depend on how records were split.
            beside: further streams of the same scope. The body gets each as one more argument; every round has all
                records of the stream's epoch.
            name: the name of the loop; errors show it.

        Raises:
            GraphError: the body returns something else, or an argument cannot be used.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("halving")
        >>> def halve(numbers):
        ...     halves = numbers.map(lambda n: n // 2)
        ...     return halves.branch(lambda n: n > 1)  # (again, leaves)
        >>> def newton(roots):  # of (number, its root as far as it is known, by how much that changed)
        ...     better = roots.map(lambda r: (r[0], (r[1] + r[0] / r[1]) / 2, r[1]))
        ...     return better.map(lambda r: (r[0], r[1], abs(r[1] - r[2])))
        >>> numbers = flow.source("numbers", tw.IterableSource([[(0, [40, 9])]]))
        >>> _ = numbers.iterate(halve).capture("halved")
        >>> _ = numbers.iterate(lambda inner: inner.map(lambda n: n / 2), max_rounds=3).capture("three times")
        >>> roots = numbers.map(lambda n: (n, 1.0, 0.0))
        >>> roots = roots.iterate(newton, until=lambda change: change < 1e-9, measure=lambda r: r[2], combine=max)
        >>> _ = roots.map(lambda r: round(r[1], 3)).capture("roots")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [captured.batch for name in ("halved", "three times", "roots") for captured in job.captured(name)]
        [[1], [1], [5.0, 1.125], [6.325, 3.0]]
        """
        test = _test(f"iterate {name!r}", until, measure, combine, max_rounds)
        given = [self, *check_list(name, "beside", beside)]
        return _go_round([self._made(check_stream(name, one), one.schema) for one in given], body, name, test)


def _test(loop: str, until: Any, measure: Any, combine: Any, rounds: int | None) -> RoundTest:
    """Return the test that ends a loop; raise GraphError if an argument cannot be used."""
    if rounds is not None:
        check_positive(loop, "max_rounds", rounds)
    if until is None and measure is None and combine is None:
        return RoundTest(rounds=rounds)
    if until is None or measure is None:
        raise GraphError(
            f"{loop}: until= tests what measure= finds in all records of a round, so give both, such as "
            "until=lambda change: change < 1e-6, measure=lambda record: record.change"
        )
    check_function(f"{loop}, for until,", until)
    check_by(loop, "measure is", measure, None)
    if combine is not None:
        check_function(f"{loop}, for combine,", combine)
    return RoundTest(until, Keys(measure), combine or add, rounds)


def _go_round(given: "Streams", body: Callable[..., Any], name: str, test: RoundTest) -> "Stream[Any]":
    from tidewheel.operators.stream import Loop

    first, *constant = given
    loop = Loop(first.flow, first._outlet.scope.inside(name))
    with first._description.all_or_nothing():
        entered = [stream.enter(loop) for stream in given]
        feedbacks = [loop.feedback() for _ in given]
        for back, stream in zip(feedbacks[1:], constant, strict=True):
            back.schema = stream.schema
        inner, *beside = [stream.concat(back) for stream, back in zip(entered, feedbacks, strict=True)]
        may_end = test.rounds is not None or test.measure is not None
        again, leaving = _checked(body(inner, *beside), loop, one_is_enough=may_end)
        if test.measure is not None or beside:
            again, left_over, *beside = _whole_rounds(again, beside, test)
            leaving.append(left_over)
        elif test.rounds is not None:
            again, left_over = again._pass_on("rounds", build_batchwise(by_time(test.may_go_on)), 2)
            leaving.append(left_over)
        for back, stream in zip(feedbacks, [again, *beside], strict=True):
            back.connect(stream)
        return (leaving[0].concat(*leaving[1:]) if len(leaving) > 1 else leaving[0]).leave()


def _whole_rounds(again: "Stream[Any]", beside: "Streams", test: RoundTest) -> "Iterable[Stream[Any]]":
    if test.measure is not None:
        check_by("measure", "measure is", test.measure.key, again.schema)
    fold = Fold(list, test.combined, test.verdict)
    verdicts = again._stage("measure", test.measured)._unary("until", build_per_epoch(fold), GatherPact())
    ports = 2 + len(beside)
    pacts = [None, BroadcastPact(), *(None for _ in beside)]
    build = build_gathered(ports, test.send, outputs=ports, pacts=pacts)
    return again._operator("rounds", [verdicts.broadcast(), *beside], ports, build)


def _checked(returned: object, loop: "Loop", *, one_is_enough: bool) -> "tuple[Stream[Any], list[Stream[Any]]]":
    from tidewheel.operators.stream import Stream

    name = loop._scope.name
    if one_is_enough and isinstance(returned, Stream):
        return returned, []
    if not (isinstance(returned, tuple) and len(returned) == 2 and all(isinstance(one, Stream) for one in returned)):
        raise GraphError(
            f"the body of {name!r} must return two streams, (what goes round again, what leaves)"
            f"{', or only what goes round again' if one_is_enough else ''}, not {returned!r}"
        )
    again, result = returned
    if result._outlet.scope is not loop._scope:
        raise GraphError(
            f"the body of {name!r} must return what leaves in {loop._scope.describe()}, where the loop is, and not "
            f"in {result._outlet.scope.describe()}"
        )
    return again, [result]
