"""The base of all classes of stream methods: it knows the stream's origin and adds operators that read it."""

import builtins
from collections.abc import Callable, Mapping, Sequence
from inspect import iscoroutinefunction
from reprlib import repr as short
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from tidewheel.batches.batches import Batch
from tidewheel.operators.base.setting_aside import (
    Caught,
    Divide,
    Refuse,
    build_dividing,
    build_setting_aside,
    those_for_which,
)
from tidewheel.operators.base.side_by_side import what_to_give
from tidewheel.operators.keys.columns import check_names
from tidewheel.progress import GraphError, Nesting, PathSummary
from tidewheel.progress.redaction import called
from tidewheel.runtime.description.dataflow_description import DataflowDescription, Outlet
from tidewheel.runtime.description.pacts import Exchange, Key, Pact
from tidewheel.runtime.description.plan import Build, BySubstream, KeyedTransform, Transform

if TYPE_CHECKING:
    import pyarrow as pa
    import typing_extensions

    from tidewheel.operators.dataflow import Dataflow
    from tidewheel.operators.dead_letters import DeadLetters
    from tidewheel.operators.stream import Stream

    # Python's own type variables have defaults from 3.13 on.
    KeyType = typing_extensions.TypeVar("KeyType", default=Any)
    """The type of the keys that a function returns; Any where columns or fields are the key."""
else:
    KeyType = TypeVar("KeyType")

Record = TypeVar("Record")
Other = TypeVar("Other")
Result = TypeVar("Result")
State = TypeVar("State")
Value = TypeVar("Value")
Function = TypeVar("Function", bound=Callable[..., Any])


class StreamBase(Generic[Record]):
    """The timestamped records that one output of an operator sends; `Stream` has the operators.

    Attributes:
        schema: the schema of its batches, if all are known to be Arrow tables with one schema; otherwise None.
    """

    __slots__ = ("_description", "_outlet", "flow", "schema")

    def __init__(self, flow: "Dataflow", outlet: Outlet, schema: "pa.Schema | None" = None) -> None:
        self.flow = flow
        self._outlet = outlet
        self._description = outlet.description
        self.schema = schema

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._description.describe(self._outlet.source)}>"

    @property
    def nesting(self) -> Nesting:
        """The scopes around this stream, which a `PathSummary` needs."""
        return self._outlet.scope.nesting

    # ------------------------------------------------------------------ for the classes that have operators

    def _stage(
        self,
        name: str,
        transform: Transform,
        key: Key | Pact | None = None,
        *,
        schema: "pa.Schema | None" = None,
        with_keys: KeyedTransform | None = None,
        one_to_one: bool = False,
    ) -> "Stream[Any]":
        """Add an operator that sends ``transform(batch)`` at each batch's time; it may be fused with its neighbours.

        ``with_keys`` transforms batches with records of several substreams. By default ``transform`` receives each
        substream's part or, if ``one_to_one``, the whole batch.
        """
        with_keys = (lambda batch, keys: (transform(batch), keys)) if one_to_one else with_keys
        pact = self._pact(name, key)
        made = self._description.add_stage(name, self._outlet, transform, pact, with_keys)
        return self._made(made, schema)

    def _unary(
        self,
        name: str,
        build: Build,
        key: Key | Pact | None = None,
        *,
        notify: bool = True,
        schema: "pa.Schema | None" = None,
        by_substream: BySubstream = False,
    ) -> "Stream[Any]":
        """Add an operator with one input and one output; ``notify=False`` if it never looks at a frontier."""
        return self._operator(name, [], 1, build, [key], notify=notify, schema=schema, by_substream=by_substream)[0]

    def _pass_on(self, name: str, build: Build, outputs: int = 1) -> "tuple[Stream[Any], ...]":
        """Add an operator that sends rows of this stream in their substreams, without waiting for complete epochs."""
        return self._operator(name, [], outputs, build, notify=False, schema=self.schema, by_substream=True)

    def _operator(
        self,
        name: str,
        others: "Sequence[StreamBase[Any]]",
        outputs: int,
        build: Build,
        keys: Sequence[Key | Pact | None] | None = None,
        *,
        notify: bool = True,
        schema: "pa.Schema | None" = None,
        by_substream: BySubstream = False,
    ) -> "tuple[Stream[Any], ...]":
        """Add an operator that reads this stream and ``others`` of the same scope, exchanged by ``keys``.

        ``schema`` is the schema of all outputs, if known; ``by_substream`` is as for
        `DataflowDescription.add_operator`.
        """
        outlets = [self._outlet, *(check_stream(name, other) for other in others)]
        pacts = None
        if keys is not None:
            pacts = [side._pact(name, key) for side, key in zip([self, *others], keys, strict=True)]
        made = self._description.add_operator(
            name,
            outlets,
            [self._outlet.scope] * outputs,
            build,
            pacts=pacts,
            notify=notify,
            by_substream=by_substream,
        )
        return tuple(self._made(outlet, schema) for outlet in made)

    def _setting_aside(
        self,
        name: str,
        divide: Divide,
        dead_letters: "DeadLetters",
        *,
        schema: "pa.Schema | None" = None,
        part: str = "",
    ) -> "Stream[Any]":
        """Add an operator that sends the results of ``divide(batch, refuse)``, and refused records as dead letters.

        ``part`` ends the name of an operator that is a part of another.
        """
        build = build_setting_aside(divide, caught_by(self._description, name, dead_letters), part)
        made, letters = self._operator(name, [], 2, build, notify=False, by_substream=True)
        dead_letters._receive(letters)
        made.schema = schema
        return made

    def _with_good_keys(
        self,
        name: str,
        key: Key,
        dead_letters: "DeadLetters",
        *others: Key | None,
        part: str = ": keys",
    ) -> "Stream[Record]":
        """Set aside the records for which ``key`` or a function in ``others`` raises."""
        owner = Exchange(key)
        functions = [one for one in others if callable(one)]

        def is_good(record: Any) -> bool:
            owner.split([record], 2)
            for function in functions:
                function(record)
            return True

        chosen = those_for_which(is_good)
        is_called = callable(key) or bool(functions)

        def divide(batch: Batch, refuse: Refuse) -> Batch:
            return chosen(batch, refuse) if is_called or isinstance(batch, list) else batch

        return self._setting_aside(f"{name}{part}", divide, dead_letters, schema=self.schema, part=part)

    def _without_letters(
        self, name: str, dead_letters: "DeadLetters", schema: "pa.Schema | None" = None, *, part: str = ""
    ) -> "Stream[Any]":
        """Separate the letters from the results of this stream's operator, named ``name`` followed by ``part``."""
        build = build_dividing(self._description.operators[self._outlet.source.operator].name.removesuffix(part))
        made, letters = self._operator(f"{name}: dead letters", [], 2, build, notify=False, by_substream=True)
        dead_letters._receive(letters)
        made.schema = schema
        return made

    def _one_more(self) -> "Stream[Any]":
        return self._made(self._description.add_output(self._outlet))

    def _note_side_by_side(self, streams: "Mapping[str, StreamBase[Any]]") -> None:
        """Record streams that the program gets together, by suffix such as ".late"; a job warns if one is not read."""
        self._description.side_by_side.append({name: stream._outlet.source for name, stream in streams.items()})

    def _for_effect(self, *, is_asked_for: bool = True) -> Self:
        """Record that the operator has an effect even if nothing reads this stream. Return this stream."""
        self._description.effects[self._outlet.source.operator] = is_asked_for
        return self

    def _pact(self, name: str, key: Key | Pact | None) -> Pact | None:
        pact = make_pact(name, key)
        if isinstance(key, str | tuple):
            check_names(name, self.schema, [key] if isinstance(key, str) else key)
        return pact

    def _made(self, outlet: Outlet, schema: "pa.Schema | None" = None) -> "Stream[Any]":
        from tidewheel.operators.stream import Stream

        return Stream(self.flow, outlet, schema)


def make_pact(name: str, key: Key | Pact | None) -> Pact | None:
    """Return the exchange by ``key``, None without a key; raise GraphError if it is not a key."""
    if key is None or isinstance(key, Pact):
        return key
    names = key if isinstance(key, tuple) else (key,)
    if callable(key) or (names and all(isinstance(part, str) for part in names)):
        return Exchange(key)
    raise GraphError(
        f"operator {name!r}: exchange by a function of a record, the name of a column or a tuple of names, not {key!r}"
    )


def make_paths(name: str, given: PathSummary | Sequence[PathSummary]) -> tuple[PathSummary, ...]:
    if isinstance(given, PathSummary):
        return (given,)
    if isinstance(given, list | tuple) and all(isinstance(path, PathSummary) for path in given):
        return tuple(given)
    raise GraphError(f"operator {name!r}: a summary is a PathSummary or a list of them, not {given!r}")


def check_stream(name: str, other: object) -> Outlet:
    """Return the outlet of a stream; raise GraphError if ``other`` is not a stream."""
    if not isinstance(other, StreamBase):
        raise GraphError(f"operator {name!r} reads streams, not {short(other)}{what_to_give(other)}")
    return other._outlet


def caught_by(description: DataflowDescription, name: str, dead_letters: "DeadLetters | None") -> Caught:
    """Return the exceptions for which an operator sends letters; raise GraphError for a wrong ``dead_letters``."""
    from tidewheel.operators.dead_letters import DeadLetters

    if dead_letters is None:
        return ()
    if not isinstance(dead_letters, DeadLetters) or dead_letters._description is not description:
        raise GraphError(
            f"{name}: dead_letters= takes what flow.dead_letters() of the same dataflow has returned, not "
            f"{short(dead_letters)}"
        )
    return dead_letters._caught


def check_function(name: str, function: object) -> None:
    """Raise GraphError unless ``function`` can be called, and is not async."""
    if not callable(function):
        raise GraphError(f"{name} takes a function, not {short(function)}")
    if iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__):
        raise GraphError(
            f"{name} takes a function that returns a result, and {called(function)} is async: "
            "stream.map_async(function) calls it and awaits its results (docs/how-to/async-calls.md)"
        )


def callback(name: str, function: Function) -> Function:
    """Return a function that an operator will call for its effect; raise GraphError if it is not callable.

    Ray installs a ``print`` that cannot be pickled; a stand-in replaces it.
    """
    check_function(name, function)
    is_print = isinstance(function, BuiltinFunctionType) and function.__name__ == "print"
    return cast(Function, _print) if is_print else function


def _print(*values: object) -> None:
    vars(builtins)["print"](*values)


def check_positive(what: str, name: str, value: object, least: int = 1) -> None:
    """Raise GraphError unless ``value`` is a whole number of at least ``least``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise GraphError(f"{what}: {name} is a whole number, {least} or more, not {value!r}")


def check_list(name: str, argument: str, given: object) -> list[Any]:
    """Return ``given`` as a list; raise GraphError if it is neither a list nor a tuple."""
    if not isinstance(given, list | tuple):
        raise GraphError(f"operator {name!r}: {argument} is a list with one entry for each input, not {given!r}")
    return list(given)
