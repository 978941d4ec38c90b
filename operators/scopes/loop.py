"""Scopes by hand: entering, leaving and closing a loop."""

from typing import TYPE_CHECKING, Any, Self

from tidewheel.operators.records.batchwise import build_pass
from tidewheel.operators.stream import Stream
from tidewheel.operators.stream_base import Record, check_positive, check_stream
from tidewheel.progress import GraphError, IntegerDomain, PathSummary
from tidewheel.runtime.description.dataflow_description import Outlet, description_of
from tidewheel.runtime.description.scope import Scope

if TYPE_CHECKING:
    from tidewheel.operators.dataflow import Dataflow


class Feedback(Stream[Record]):
    """What comes round a loop: a stream that can be read before it is connected to what feeds it."""

    __slots__ = ("_feedback",)

    def __init__(self, flow: "Dataflow", outlet: Outlet, operator: int) -> None:
        super().__init__(flow, outlet)
        self._feedback = operator

    def connect(self, stream: Stream[Record]) -> None:
        """Close the loop: what ``stream`` sends comes out here a round later.

        Raises:
            GraphError: it is connected already, or ``stream`` is in another scope or dataflow.
        """
        self._description.connect(self._feedback, check_stream("feedback", stream))


class Loop:
    """A scope whose streams have times ``(outer, round)``; a context manager only so that the code shows its extent."""

    __slots__ = ("_flow", "_scope")

    def __init__(self, flow: "Dataflow", scope: Scope) -> None:
        self._flow = flow
        self._scope = scope

    def feedback(self, advance: int = 1) -> Feedback[Any]:
        """Return a stream of what will be fed back; `Feedback.connect` says later what that is."""
        scope = self._scope
        if not isinstance(scope.nesting.coordinate_domains[-1], IntegerDomain):
            raise GraphError(
                f"a feedback in {scope.describe()} would advance times that are no integers; put the cycle in a loop, "
                "flow.scope(name), whose rounds are"
            )
        check_positive(f"a feedback in {scope.describe()}", "advance", advance, least=0)
        summary = PathSummary.advance(scope.nesting, advance)
        operator, outlet = description_of(self._flow).add_open_operator("feedback", scope, build_pass, summary)
        return Feedback(self._flow, outlet, operator)

    def inner(self, name: str) -> "Loop":
        """Return a loop within this one, whose times are ``((outer, round), inner round)``."""
        return Loop(self._flow, self._scope.inside(name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""
