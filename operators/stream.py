"""Streams: what operators send, and the methods by which the next operator is added."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from tidewheel.operators.capture import build_capture
from tidewheel.operators.forward import build_pass
from tidewheel.progress import GraphError, Nesting, PathSummary
from tidewheel.runtime.batches import Batch, records
from tidewheel.runtime.dataflow_description import Outlet
from tidewheel.runtime.exchange import Exchange, Key
from tidewheel.runtime.plan import Build, Transform

if TYPE_CHECKING:
    from tidewheel.operators.dataflow import Dataflow
    from tidewheel.operators.loop import Loop

Record = TypeVar("Record")
Result = TypeVar("Result")
Other = TypeVar("Other")


class Stream(Generic[Record]):
    """The records that one output of one operator sends, each at a time.

    A message carries a batch: a list, an Arrow table or record batch, or a NumPy array. Methods that take a function of
    a record call it once for each, with a dict for a row of Arrow; `map_batches` takes the batch as it is.
    """

    __slots__ = ("outlet",)

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet

    @property
    def flow(self) -> "Dataflow":
        """The dataflow that this stream belongs to."""
        return cast("Dataflow", self.outlet.description)

    @property
    def nesting(self) -> Nesting:
        """The scopes around this stream, by which a `PathSummary` says where it begins and ends."""
        return self.outlet.scope.nesting

    # ------------------------------------------------------------------ core operators

    def unary(self, name: str, build: Build, exchange: Key | None = None) -> "Stream[Any]":
        """Add an operator of one input and one output that may hold tokens and look at its frontier.

        Args:
            name: the operator's name; errors show it.
            build: called once on each worker with an `OperatorContext`; returns ``schedule(input, output)``.
            exchange: how records are spread over the workers before they reach it; None leaves them where they are.
        """
        outlet = self.outlet
        (made,) = outlet.description.add_operator(
            name, [outlet], [outlet.scope], build, pacts=[make_pact(name, exchange)]
        )
        return Stream(made)

    def binary(
        self,
        other: "Stream[Other]",
        name: str,
        build: Build,
        exchange: tuple[Key | None, Key | None] = (None, None),
    ) -> "Stream[Any]":
        """Add an operator of two inputs and one output; ``build`` returns ``schedule(left, right, output)``."""
        other_outlet = check_stream(name, other)
        outlet = self.outlet
        if not isinstance(exchange, tuple) or len(exchange) != 2:
            raise GraphError(
                f"operator {name!r}: exchange has a key for each side, (left, right), None for none, not {exchange!r}"
            )
        pacts = [make_pact(name, key) for key in exchange]
        (made,) = outlet.description.add_operator(name, [outlet, other_outlet], [outlet.scope], build, pacts=pacts)
        return Stream(made)

    def exchange(self, key: Key) -> "Stream[Record]":
        """Send each record to the worker that owns its key, the same for every stream and every kind of batch.

        Args:
            key: a function of a record, the name of a column (vectorised on Arrow), or a tuple of names.
        """
        if key is None:
            raise GraphError("operator 'exchange': exchange by a function of a record, a name or names, not None")
        return self._stage("exchange", lambda batch: batch, key)

    def concat(self, *others: "Stream[Record]") -> "Stream[Record]":
        """Join this stream with others of the same scope; each record stays on its worker."""
        outlets = [self.outlet, *(check_stream("concat", other) for other in others)]
        (made,) = self.outlet.description.add_operator("concat", outlets, [self.outlet.scope], build_pass, notify=False)
        return Stream(made)

    def enter(self, loop: "Loop") -> "Stream[Record]":
        """Take this stream into a loop: time ``t`` becomes ``(t, 0)``.

        Raises:
            GraphError: the loop does not lie directly in the scope of this stream.
        """
        from tidewheel.operators.loop import Loop

        if not isinstance(loop, Loop):
            raise GraphError(f"enter: a stream enters a loop of flow.scope(name), not {loop!r}")
        inner = loop.scope
        if inner.parent is not self.outlet.scope:
            raise GraphError(
                f"enter: {inner.describe()} does not lie directly in the stream's, {self.outlet.scope.describe()}"
            )
        summaries = {(0, 0): (PathSummary.enter(inner.nesting),)}
        (made,) = self.outlet.description.add_operator(
            "enter", [self.outlet], [inner], build_pass, summaries=summaries, notify=False
        )
        return Stream(made)

    def leave(self) -> "Stream[Record]":
        """Take this stream out of its loop: time ``(t, round)`` becomes ``t``.

        Raises:
            GraphError: the stream is in no loop.
        """
        inner = self.outlet.scope
        if inner.parent is None:
            raise GraphError(
                f"leave: the stream of dataflow {self.outlet.description.name!r} is in no loop, there is nothing to "
                "leave; enter(loop) comes first"
            )
        summaries = {(0, 0): (PathSummary.leave(inner.nesting),)}
        (made,) = self.outlet.description.add_operator(
            "leave", [self.outlet], [inner.parent], build_pass, summaries=summaries, notify=False
        )
        return Stream(made)

    def probe(self, name: str) -> "Stream[Record]":
        """Let ``job.probe(name)`` tell which times are complete up to here, at no cost to data. Returns this stream."""
        self.outlet.description.register("probe", name, self.outlet.source)
        return self

    def capture(self, name: str) -> "Stream[Record]":
        """Keep what passes here on its worker for ``job.captured(name)``. Returns this stream."""
        self.outlet.description.register("capture", name, self.outlet.description.size)
        self._sink(f"capture {name}", build_capture, notify=False)
        return self

    def publish(self, topic: str) -> "Stream[Record]":
        """Offer this stream live, as a topic of one partition a worker; see `tidewheel.subscribe`. Returns this stream.

        Raises:
            GraphError: this dataflow publishes a topic of that name already.
        """
        from tidewheel.operators.publish import build_publish
        from tidewheel.pubsub import Publication

        self.outlet.description.attach(topic, Publication(topic, self.outlet.scope.nesting.domain))
        self.outlet.description.register("topic", topic, self.outlet.description.size)
        self._sink(f"publish {topic}", build_publish(topic), notify=True)
        return self

    # ------------------------------------------------------------------ derived operators

    def map(self, function: Callable[[Record], Result]) -> "Stream[Result]":
        """Replace each record by ``function(record)``."""
        check_function("map", function)
        return self._stage("map", lambda batch: [function(record) for record in records(batch)])

    def flat_map(self, function: Callable[[Record], Iterable[Result]]) -> "Stream[Result]":
        """Replace each record by all that ``function(record)`` yields."""
        check_function("flat_map", function)
        return self._stage(
            "flat_map", lambda batch: [result for record in records(batch) for result in function(record)]
        )

    def filter(self, predicate: Callable[[Record], object]) -> "Stream[Record]":
        """Keep the records for which ``predicate(record)`` is true."""
        check_function("filter", predicate)
        return self._stage("filter", lambda batch: [record for record in records(batch) if predicate(record)])

    def map_batches(self, function: Callable[[Any], Batch]) -> "Stream[Any]":
        """Replace each batch, as it is, by ``function(batch)``; an empty result is not sent."""
        check_function("map_batches", function)
        return self._stage("map_batches", function)

    def inspect(self, function: Callable[[Record], object]) -> "Stream[Record]":
        """Call ``function`` with each record and pass the batch on unchanged."""
        check_function("inspect", function)

        def look(batch: Batch) -> Batch:
            for record in records(batch):
                function(record)
            return batch

        return self._stage("inspect", look)

    def iterate(
        self,
        body: "Callable[[Stream[Record]], tuple[Stream[Record], Stream[Result]]]",
        name: str = "iterate",
    ) -> "Stream[Result]":
        """Send this stream round a loop until nothing comes back.

        Args:
            body: gets the stream of what enters and what comes back, with times ``(t, round)``; returns two streams of
                the same scope: what goes round again, and what leaves with time ``t``.
            name: the name of the loop; errors show it.
        """
        from tidewheel.operators.loop import Loop

        loop = Loop(self.flow, self.outlet.scope.inside(name))
        with self.outlet.description.all_or_nothing():
            return self._iterate(body, loop)

    def _iterate(self, body: Callable[..., Any], loop: "Loop") -> "Stream[Any]":
        from tidewheel.operators.loop import make_feedback

        name = loop.scope.name
        feedback = make_feedback(self.flow, loop.scope, advance=1)
        returned = body(self.enter(loop).concat(feedback))
        if not (isinstance(returned, tuple) and len(returned) == 2 and all(isinstance(s, Stream) for s in returned)):
            raise GraphError(
                f"the body of {name!r} must return two streams, (what goes round again, what leaves), not {returned!r}"
            )
        again, result = returned
        feedback.connect(again)
        if result.outlet.scope is not loop.scope:
            raise GraphError(
                f"the body of {name!r} must return what leaves in {loop.scope.describe()}, where the loop is, and not "
                f"in {result.outlet.scope.describe()}"
            )
        leaving: Stream[Any] = result.leave()
        return leaving

    # ------------------------------------------------------------------ shared

    def _stage(self, name: str, transform: Transform, key: Key | None = None) -> "Stream[Any]":
        return Stream(self.outlet.description.add_stage(name, self.outlet, transform, make_pact(name, key)))

    def _sink(self, name: str, build: Build, *, notify: bool) -> None:
        self.outlet.description.add_operator(name, [self.outlet], [], build, notify=notify)


def make_pact(name: str, key: Key | None) -> Exchange | None:
    """Return the exchange by ``key``, None for none; raise GraphError if that is no key."""
    if key is None:
        return None
    names = key if isinstance(key, tuple) else (key,)
    if callable(key) or (names and all(isinstance(part, str) for part in names)):
        return Exchange(key)
    raise GraphError(
        f"operator {name!r}: exchange by a function of a record, the name of a column or a tuple of names, not {key!r}"
    )


def check_stream(name: str, other: object) -> Outlet:
    """Return the outlet of a stream; raise GraphError if it is none."""
    if not isinstance(other, Stream):
        raise GraphError(f"operator {name!r} reads streams, not {other!r}")
    return other.outlet


def check_function(name: str, function: object) -> None:
    """Raise GraphError unless ``function`` can be called."""
    if not callable(function):
        raise GraphError(f"{name} takes a function, not {function!r}")


def check_list(name: str, argument: str, given: object) -> list[Any]:
    """Return what was given as a list; raise GraphError if it is neither list nor tuple."""
    if not isinstance(given, list | tuple):
        raise GraphError(f"operator {name!r}: {argument} is a list with one entry for each input, not {given!r}")
    return list(given)
