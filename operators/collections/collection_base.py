"""The base of the classes with the methods of collections: it puts operators behind the stream of updates."""

from collections.abc import Callable, Sequence
from reprlib import repr as short
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from tidewheel.operators.base.batchwise import build_pass
from tidewheel.operators.base.stream_base import StreamBase
from tidewheel.operators.collections.pacts import KeyPact, OwnedPact, RecordPact, SameWorkerPact
from tidewheel.progress import GraphError, PathSummary
from tidewheel.runtime.description.described_operator import DescribedOperator
from tidewheel.runtime.description.pacts import Pact
from tidewheel.runtime.description.plan import Transform
from tidewheel.runtime.description.scope import Scope

if TYPE_CHECKING:
    from tidewheel.differential.reductions import Reduction
    from tidewheel.operators.collections.builds import Project

_Key: TypeAlias = Literal["key", "record"]
"""The kind of key by which a collection is arranged: the key of its pairs, or the whole record."""

_PACTS: dict[_Key, Callable[[str], Pact]] = {"key": KeyPact, "record": lambda _: RecordPact()}
"""The pact of a collection that an operator of a name arranges."""


class CollectionBase:
    """Updates of records, each batch at one time; `Collection` has the operators.

    Args:
        stream: batches as `tidewheel.differential.records` describes them.
        columns: the names of the columns of the records, as `tidewheel.operators.collections.rows` has them; none if
            they have no names.
        is_empty: whether there will never be a record.
        is_summed: whether each record has at most one update at each time.
        owned_by: by what a worker owns the updates that it has, None if it may have any.
    """

    __slots__ = ("_columns", "_is_empty", "_is_summed", "_made", "_owned_by", "_stream")

    def __init__(
        self,
        stream: StreamBase[Any],
        columns: tuple[str, ...] = (),
        *,
        is_empty: bool = False,
        is_summed: bool = False,
        owned_by: _Key | None = None,
    ) -> None:
        self._stream: Any = stream  # its methods return a Stream, a class that imports this one
        self._columns = columns
        self._is_empty, self._is_summed, self._owned_by = is_empty, is_summed, owned_by
        self._made: dict[str, tuple[Any, DescribedOperator]] = {}  # what several operators use, with its last operator

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._stream._description.describe(self._stream._outlet.source)}>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_") and hasattr(type(self._stream), name):
                raise AttributeError(
                    f"a collection has no {name}(), and a stream has: write collection.changes().{name}(...)"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    @property
    def _scope(self) -> Scope:
        scope: Scope = self._stream._outlet.scope
        return scope

    @property
    def _described(self) -> DescribedOperator:
        """The operator that this collection comes out of."""
        found: DescribedOperator = self._stream._description.operators[self._stream._outlet.source.operator]
        return found

    @property
    def _depth(self) -> int:
        return len(self._stream.nesting.coordinate_domains)

    def _stage(self, name: str, transform: Transform, columns: tuple[str, ...] = ()) -> Self:
        """Return the collection that a stateless transform of each batch makes."""
        return type(self)(self._stream._stage(name, transform), columns)

    def _reduce(self, name: str, make: "Callable[[Any], Reduction]", columns: tuple[str, ...] = ()) -> Self:
        """Return the result of a reduction, which is made of the module of them, as that loads NumPy.

        The first reduction of a collection arranges it, for others as well.
        """
        from tidewheel.differential import reductions
        from tidewheel.operators.collections.builds import build_reduce

        reduction = make(reductions)
        key: _Key = "key" if reduction.form == "pair" else "record"
        owned_by = None if reduction.form == "counted" else key
        if self._found(f"by {key}") or self._found(f"reduced by {key}"):
            side = self._arranged(name, key)
            build = build_reduce(self._depth, reduction, side._described.name)
            made = side._stream._unary(name, build, SameWorkerPact())
            return type(self)(made, columns, is_summed=True, owned_by=owned_by)
        build = build_reduce(self._depth, reduction, None)
        stream = self._stream._unary(name, build, self._pact(name, key))
        made = type(self)(stream, columns, is_summed=True, owned_by=owned_by)
        return self._once(f"reduced by {key}", lambda: made)

    def _join(self, name: str, other: Self, project: "Project", columns: tuple[str, ...] = ()) -> Self:
        from tidewheel.operators.collections.builds import build_join

        scope = self._common_scope(name, [other])
        arranged = [one._arranged(name) for one in (self, other)]
        sides = [one._described.name for one in arranged]
        left, right = [one._entered(scope, SameWorkerPact()) for one in arranged]
        build = build_join(left._depth, project, sides)
        (joined,) = left._stream._operator(name, [right._stream], 1, build, [SameWorkerPact(), SameWorkerPact()])
        return type(self)(joined, columns)

    def _arranged(self, asked_by: str, key: _Key = "key") -> Self:
        """Return the numbers of the updates of this collection, which some operator arranges for all that ask."""
        return self._once(f"by {key}", lambda: type(self)(self._numbers(asked_by, key)))

    def _numbers(self, asked_by: str, key: _Key) -> Any:
        """Return the numbers of the updates that a reduction arranges, or else a new operator."""
        from tidewheel.operators.collections.builds import build_arrangement

        reduced = self._found(f"reduced by {key}")
        if reduced is not None:
            return reduced._stream._one_more()
        build = build_arrangement(self._depth, asked_by, by_record=key == "record")
        return self._stream._unary(f"{asked_by}: by {key}", build, self._pact(asked_by, key), notify=False)

    def _pact(self, name: str, key: _Key) -> Pact:
        """Return the pact of an operator of this name that needs updates where ``key`` is owned."""
        pact = _PACTS[key](name)
        return OwnedPact(pact) if key == self._owned_by else pact

    def _once(self, what: str, make: Callable[[], Self]) -> Self:
        """Return what was made of this collection before; make it if it was not, or was taken back since."""
        found = self._found(what)
        if found is None:
            found = make()
            self._made[what] = found, found._described
        return found

    def _found(self, what: str) -> Self | None:
        """Return what was made of this collection before, None if it was not, or was taken back since."""
        made, described = self._made.get(what, (None, None))
        return made if any(one is described for one in self._stream._description.operators) else None

    def _concat(self, name: str, others: tuple[Self, ...]) -> Self:
        """Return the sum of collections, in the innermost scope that one of them is in.

        It has the names of the columns of this one if all have as many.
        """
        together = self._in_one_scope(name, others)
        for other in others:
            one, two = self._columns, other._columns
            if one and two and (len(one) != len(two) or (one != two and sorted(one) == sorted(two))):
                raise GraphError(
                    f"operator {name!r}: {self._with_columns()}, and {other._with_columns()}: bring them to as many, "
                    "in one order, by select(...) before; select(new=pc.field('old')) gives a column another name"
                )
        streams = [one._stream for one in together]
        (joined,) = streams[0]._operator(name, streams[1:], 1, build_pass, notify=False)
        return type(self)(joined, self._columns if all(one._columns for one in others) else ())

    def _with_columns(self) -> str:
        """Return a clause for errors that says which columns this collection has."""
        source = self._stream._description.describe(self._stream._outlet.source)
        return f"the collection of {source} has {', '.join(self._columns) or 'columns without names'}"

    def _in_one_scope(self, name: str, others: Sequence[Self]) -> list[Self]:
        """Return this collection and others in the innermost of their scopes: those outside enter its loop."""
        scope = self._common_scope(name, others)
        return [one._entered(scope) for one in (self, *others)]

    def _common_scope(self, name: str, others: Sequence[Self]) -> Scope:
        """Return the innermost scope of this collection and others.

        Raises:
            GraphError: one is no collection, or of another dataflow, or two are in loops beside each other.
        """
        scope = self._scope
        for other in (self, *others):
            self._check_other(name, other)
            if not lies_in(scope, other._scope):
                if not lies_in(other._scope, scope):
                    raise GraphError(
                        f"operator {name!r} reads a collection of {scope.describe()} and one of "
                        f"{other._scope.describe()}, and neither lies in the other: use the result of iterate()"
                    )
                scope = other._scope
        return scope

    def _check_other(self, name: str, other: object) -> None:
        if not isinstance(other, CollectionBase):
            raise GraphError(f"operator {name!r} takes a collection, from as_collection(), not {short(other)}")
        self._stream._description.check_inputs(name, [other._stream._outlet])

    def _entered(self, scope: Scope, pact: Pact | None = None) -> Self:
        """Return this collection in ``scope``, which is its own or lies in it."""
        if scope is self._scope:
            return self
        assert scope.parent is not None, "the scope lies in that of this collection"
        return self._entered(scope.parent, pact)._moved("enter", scope, PathSummary.enter(scope.nesting), pact)

    def _moved(self, name: str, to: Scope, path: PathSummary, pact: Pact | None = None) -> Self:
        """Return this collection in a scope beside its own."""
        stays = self._owned_by and self._pact(name, self._owned_by)
        moved = self._stream._move(name, to, build_pass, path, pact or stays)
        return type(self)(moved, self._columns, owned_by=self._owned_by)


def lies_in(scope: Scope, outer: Scope) -> bool:
    """Tell whether a scope is another one or lies in it."""
    return scope is outer or (scope.parent is not None and lies_in(scope.parent, outer))
