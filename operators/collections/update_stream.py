"""The stream of a collection's updates, with its known properties, for `Collection`."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from tidewheel.operators.base.batchwise import build_pass
from tidewheel.operators.base.stream_base import StreamBase
from tidewheel.operators.collections.pacts import KeyPact, RecordPact, SameWorkerPact
from tidewheel.progress import PathSummary
from tidewheel.runtime.description.dataflow_description import DataflowDescription
from tidewheel.runtime.description.described_operator import DescribedOperator
from tidewheel.runtime.description.pacts import Pact
from tidewheel.runtime.description.plan import Transform
from tidewheel.runtime.description.scope import Scope

By: TypeAlias = Literal["key", "record"]
"""The kind of key by which a collection is arranged: the key of its pairs, or the whole record."""

_PACTS: dict[By, Callable[[str], Pact]] = {"key": KeyPact, "record": lambda _: RecordPact()}
"""For each kind of key, a function from an operator's name to the pact of its input."""


class UpdateStream:
    """Updates of records, each batch at one time.

    Args:
        is_summed: whether each record has at most one update at each time.
        owned_by: whether the key or the whole record decides the worker of a record; None if neither does.
    """

    __slots__ = ("_made", "columns", "is_empty", "is_summed", "owned_by", "stream")

    def __init__(
        self,
        stream: StreamBase[Any],
        columns: tuple[str, ...] = (),
        *,
        is_empty: bool = False,
        is_summed: bool = False,
        owned_by: By | None = None,
    ) -> None:
        self.stream: Any = stream  # its methods return a Stream, a class that imports this one
        self.columns = columns
        self.is_empty = is_empty
        self.is_summed = is_summed
        self.owned_by = owned_by
        self._made: dict[str, tuple[UpdateStream, DescribedOperator]] = {}

    @property
    def description(self) -> DataflowDescription:
        found: DataflowDescription = self.stream._description
        return found

    @property
    def scope(self) -> Scope:
        scope: Scope = self.stream._outlet.scope
        return scope

    @property
    def operator(self) -> DescribedOperator:
        found: DescribedOperator = self.description.operators[self.stream._outlet.source.operator]
        return found

    @property
    def depth(self) -> int:
        return len(self.stream.nesting.coordinate_domains)

    def describe(self) -> str:
        return self.description.describe(self.stream._outlet.source)

    def with_columns(self) -> str:
        """A clause that names the columns of the collection, for errors."""
        return f"the collection of {self.describe()} has {', '.join(self.columns) or 'columns without names'}"

    def stage(self, name: str, transform: Transform, columns: tuple[str, ...] = ()) -> "UpdateStream":
        return UpdateStream(self.stream._stage(name, transform), columns)

    def pact(self, name: str, by: By) -> Pact:
        """Return the pact that brings updates to the worker that owns their record or key."""
        pact = _PACTS[by](name)
        return SameWorkerPact(pact) if by == self.owned_by else pact

    def entered(self, scope: Scope, pact: Pact | None = None) -> "UpdateStream":
        """Return the updates in ``scope``, which is their own scope or lies in it."""
        if scope is self.scope:
            return self
        assert scope.parent is not None, "the scope lies in that of the collection"
        return self.entered(scope.parent, pact).moved("enter", scope, PathSummary.enter(scope.nesting), pact)

    def moved(self, name: str, to: Scope, path: PathSummary, pact: Pact | None = None) -> "UpdateStream":
        """Return the updates in another scope, ``to``, with times changed by ``path``."""
        stays = self.owned_by and self.pact(name, self.owned_by)
        moved = self.stream._move(name, to, build_pass, path, pact or stays)
        return UpdateStream(moved, self.columns, owned_by=self.owned_by)

    # ------------------------------------------------------------------ for several operators

    def once(self, what: str, make: "Callable[[], UpdateStream]") -> "UpdateStream":
        found = self.found(what)
        if found is None:
            found = make()
            self._made[what] = found, found.operator
        return found

    def found(self, what: str) -> "UpdateStream | None":
        made, last = self._made.get(what, (None, None))
        return made if any(one is last for one in self.description.operators) else None
