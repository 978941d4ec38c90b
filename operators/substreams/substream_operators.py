"""The methods that divide a stream into substreams, whose ends operators can receive."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tidewheel.operators.base.batchwise import build_unlabelled
from tidewheel.operators.base.stream_base import Record, Result, StreamBase, check_function
from tidewheel.operators.epochs.substream_state import build_collect
from tidewheel.operators.keys.record_keys import Keys, Names
from tidewheel.operators.substreams.labeller import MarkedPact, SubstreamKeys, build_declare
from tidewheel.progress import GraphError
from tidewheel.runtime.description.origin import adds_operators
from tidewheel.runtime.description.pacts import BroadcastPact, Pact, SubstreamPact
from tidewheel.runtime.description.plan import EndsWanted

if TYPE_CHECKING:
    from tidewheel.operators.stream import Stream

Bound: TypeAlias = Literal["soft", "firm"]
"""The place of a substream's end.

``"soft"``: some time after its last record. ``"firm"``: right after its last record; the operator receives the records
of a substream in one piece, and then its end.
"""


def ends_wanted(name: str, bound: Bound | None, *, ordered: bool) -> EndsWanted | bool:
    """Return the ends that an operator on separate substreams asks for; True if it asks for none.

    Raises:
        GraphError: the arguments do not fit together.
    """
    if bound is None:
        if ordered:
            raise GraphError(f"operator {name!r}: ordered=True is the order of ends, of which bound= has it told")
        return True
    if bound not in {"soft", "firm"}:
        raise GraphError(f'operator {name!r}: bound is "soft" or "firm", or None not to be told of ends, not {bound!r}')
    return EndsWanted(ordered, firm=bound == "firm")


class SubstreamOperators(StreamBase[Record]):
    """The methods of streams for substreams.

    A record belongs to the substream of its key, and so do all records made from it, also in later rounds of a loop. At
    some point, the source of a substream promises to send no more records of the key. Once no record of the substream
    can reach an operator any more, the operator receives the substream's end.
    """

    __slots__ = ()

    @adds_operators("predicates")
    def substreams(
        self,
        name: str,
        key: Callable[[Record], Any] | Names | None = None,
        *,
        last: Callable[[Record], Any] | None = None,
        predicates: Mapping[str, Callable[[Record], Any]] | None = None,
    ) -> "Stream[Record]":
        """Divide this stream into substreams: each record belongs to the substream of its key.

        Each batch that a later operator receives is of one substream. Its token has the ``key``, and records sent with
        the token belong to the same substream. So an operator that keeps records by time must keep them by
        ``(token.time, token.key)``. With ``bound="soft"``, ``input.ended`` has the keys whose records can no longer
        arrive.

        Three things promise the end of a key: ``last``, `OperatorContext.end_substream` in the preceding operator, or,
        for a stream directly from an input, `InputHandle.end_substream`. All keys end with the stream. A record of an
        ended key at the same time fails the job. At a later time, it belongs to a new substream, and waits until no
        record of the old substream can reach an operator that asks for ends. So such an operator must give up its
        tokens of the old substream without waiting for that later time. Records of different workers may overtake each
        other. So if ``last`` or an operator promises ends, one worker must send all records of a key in order, as one
        partition of a source does.

        Args:
            name: the name of these substreams, unique in the dataflow.
            key: a function of a record, or the name or names of columns.
            last: tells whether a record is the last of its substream; not for a stream directly from an input.
            predicates: instead of a key, a predicate for the name of each substream; it tells which records belong to
                the substream. Substreams may overlap: the operator sends a record once for each of its substreams, and
                once if it belongs to none.

        Raises:
            GraphError: the stream has substreams already, comes directly from an input that another operator reads,
                too, or an argument cannot be used.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("orders")
        >>> lines = flow.source("lines", tw.RecordSource([("a", 1), ("b", 2), ("a", 3), ("b", 0), ("a", 0)]))
        >>> orders = lines.substreams("orders", key=lambda line: line[0], last=lambda line: line[1] == 0)
        >>> _ = orders.collect_substream(lambda order, lines: (order, len(lines))).capture("lines")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     sorted(row for captured in job.captured("lines") for row in captured.batch)
        [('a', 3), ('b', 2)]
        """
        if not isinstance(name, str):
            raise GraphError(f"substreams: the first argument is the name of the substreams, not {name!r}")
        what = f"substreams {name}"
        how, pact = self._how_divided(what, key, last, predicates)
        if self._outlet.substreams:
            raise GraphError(
                f"{what}: the stream has substreams of {min(self._outlet.substreams)!r} already: call "
                "without_substreams() before"
            )
        from_input = self._description.input_at(self._outlet)
        if from_input is not None:
            return self._divide_input(name, from_input, how)
        with self._description.all_or_nothing():
            made: Stream[Any] = self._unary(what, build_declare(how), MarkedPact(pact))
            return self._made(self._description.declare(name, made._outlet), self.schema)

    def _divide_input(self, name: str, from_input: str, how: SubstreamKeys) -> "Stream[Record]":
        if self._description.is_read(self._outlet):
            raise GraphError(
                f"substreams {name}: input {from_input!r} is read by another operator already, whose records would be "
                "divided, too: let it read the stream that substreams() returns"
            )
        declared = self._description.declare(name, self._outlet, lambda build: replace(build, divided=how))
        return self._made(declared, self.schema)

    def _how_divided(
        self,
        what: str,
        key: Callable[[Record], Any] | Names | None,
        last: Callable[[Record], Any] | None,
        predicates: Mapping[str, Callable[[Record], Any]] | None,
    ) -> tuple[SubstreamKeys, Pact]:
        if (key is None) == (predicates is None):
            raise GraphError(f"{what}: give a key, or predicates by name")
        if predicates is None:
            keys = Keys.checked(what, key, self.schema)
            if last is not None:
                self._check_last(what, last)
            pact = self._pact(what, key)
            assert pact is not None, "there is a key"
            return SubstreamKeys(keys, last), pact
        if last is not None or not isinstance(predicates, Mapping) or not predicates:
            raise GraphError(
                f"{what}: predicates are some functions by name, whose substreams no record ends, so without last=; "
                f"not {predicates!r}"
            )
        for name, predicate in predicates.items():
            if not isinstance(name, str):
                raise GraphError(f"{what}: predicates have names, not {name!r}")
            check_function(f"{what}, for {name!r},", predicate)
        return SubstreamKeys(Keys(None), None, dict(predicates)), BroadcastPact()

    def _check_last(self, what: str, last: object) -> None:
        check_function(f"{what}, for last,", last)
        if self._description.input_at(self._outlet) is not None:
            raise GraphError(
                f"{what}: the records of an input come to any worker, so none knows which is the last of a key. "
                "Promise ends by job.input(...).end_substream(key)"
            )

    def without_substreams(self, *, name: str = "without_substreams") -> "Stream[Record]":
        """Remove records from their substreams; records made from them belong to no substream either.

        Operators that combine records of different substreams, such as operators on whole epochs, need such a stream.
        `substreams` can divide it again.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("lines")
        >>> lines = flow.input("lines", str).substreams("orders", key=lambda line: line[0])
        >>> _ = lines.without_substreams().count(key=lambda line: line[0]).capture("count")
        >>> with tw.run(flow, engine="local") as job:
        ...     with job.input("lines") as handle:
        ...         handle.send(["a 1", "b 1", "a 2"])
        ...     job.wait()
        ...     job.captured("count")
        [Captured(time=0, batch=[('a', 2), ('b', 1)])]
        """
        made = self._unary(name, build_unlabelled, notify=False, by_substream="left")
        return self._made(replace(made._outlet, substreams=frozenset()), self.schema)

    @adds_operators()
    def collect_substream(
        self, result: Callable[[Any, list[Record]], Result], *, name: str = "collect_substream"
    ) -> "Stream[Result]":
        """Send one result for each substream, when no record of the substream can reach this operator any more.

        Its time is the latest time of the substream's records; without a total order, the last in the domain's
        `in_order`.

        Args:
            result: gets the key and all records of the substream, in any order, and returns the result; it is not
                called for an empty substream. Records that belong to no substream are left out.
            name: the operator's name.

        Raises:
            GraphError: a result would go round a loop and come back here. `tidewheel.run` raises it if the stream has
                no substreams.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("walks")
        >>> def step(walks):
        ...     moved = walks.map(lambda walk: (walk[0], walk[1] // 2))
        ...     return moved.filter(lambda walk: walk[1] > 0), moved
        >>> walks = flow.input("walks").substreams("walks", key=lambda walk: walk[0]).iterate(step)
        >>> _ = walks.collect_substream(lambda name, steps: (name, len(steps))).capture("lengths")
        >>> with tw.run(flow, engine="local") as job:
        ...     with job.input("walks") as handle:
        ...         handle.send([("short", 2), ("long", 100)])
        ...         handle.end_substream("short", "long")
        ...     job.wait()
        ...     sorted(row for captured in job.captured("lengths") for row in captured.batch)
        [('long', 7), ('short', 2)]
        """
        check_function("collect_substream", result)
        ends = EndsWanted(ordered=False, holds=True)
        return self._unary(name, build_collect(result), SubstreamPact(), notify=False, by_substream=ends)
