"""Operators that bring updates with equal keys together. Operators that need the same arrangement share it."""

from typing import Any

from tidewheel.differential.records import as_keys
from tidewheel.differential.reductions import Reduction, Threshold
from tidewheel.operators.collections.builds import (
    Project,
    build_arrangement,
    build_consolidate,
    build_join,
    build_lookups,
    build_reduce,
)
from tidewheel.operators.collections.pacts import SameWorkerPact
from tidewheel.operators.collections.scopes import common_scope
from tidewheel.operators.collections.update_stream import By, UpdateStream
from tidewheel.progress import GraphError


def arranged(updates: UpdateStream, asked_by: str, by: By = "key") -> UpdateStream:
    """Return a stream of numbers of updates in the collection's arrangement, which all operators share."""
    return updates.once(f"by {by}", lambda: UpdateStream(_numbers(updates, asked_by, by)))


def _numbers(updates: UpdateStream, asked_by: str, by: By) -> Any:
    reduced_before = updates.found(f"reduced by {by}")
    if reduced_before is not None:
        return reduced_before.stream._one_more()
    build = build_arrangement(updates.depth, asked_by, by_record=by == "record")
    return updates.stream._unary(f"{asked_by}: by {by}", build, updates.pact(asked_by, by), notify=False)


def reduced(updates: UpdateStream, name: str, reduction: Reduction, columns: tuple[str, ...] = ()) -> UpdateStream:
    """Return the result of a reduction.

    The first reduction of a collection arranges it; later ones share the arrangement.
    """
    by: By = "key" if reduction.form == "pair" else "record"
    owned_by = None if reduction.form == "counted" else by
    if updates.found(f"by {by}") or updates.found(f"reduced by {by}"):
        side = arranged(updates, name, by)
        build = build_reduce(updates.depth, reduction, side.operator.name)
        made = side.stream._unary(name, build, SameWorkerPact())
        return UpdateStream(made, columns, is_summed=True, owned_by=owned_by)
    build = build_reduce(updates.depth, reduction, None)
    stream = updates.stream._unary(name, build, updates.pact(name, by))
    return updates.once(f"reduced by {by}", lambda: UpdateStream(stream, columns, is_summed=True, owned_by=owned_by))


def joined(
    left: UpdateStream, right: UpdateStream, name: str, project: Project, columns: tuple[str, ...] = ()
) -> UpdateStream:
    """Join two collections; return the records that ``project`` makes of the updates with equal keys."""
    scope = common_scope(name, [left, right])
    sides = [arranged(one, name) for one in (left, right)]
    names = [one.operator.name for one in sides]
    first, second = [one.entered(scope, SameWorkerPact()) for one in sides]
    build = build_join(first.depth, project, names)
    (made,) = first.stream._operator(name, [second.stream], 1, build, [SameWorkerPact(), SameWorkerPact()])
    return UpdateStream(made, columns)


def known_keys(keys: UpdateStream, name: str) -> UpdateStream:
    """Return the records of a collection, each once, as keys without values."""
    return keys.once(
        "keys", lambda: reduced(keys, f"{name}: keys", Threshold(), keys.columns).stage(f"{name}: pairs", as_keys)
    )


def consolidated(updates: UpdateStream, name: str) -> UpdateStream:
    owned_by = updates.owned_by or "record"  # equal records have one owner in any case
    stream = updates.stream._unary(name, build_consolidate(), updates.pact(name, owned_by))
    return UpdateStream(stream, updates.columns, is_summed=True, owned_by=owned_by)


def look_up(updates: UpdateStream, name: str) -> None:
    """Let a job look up keys of the collection; raise GraphError if the collection is in a loop."""
    if updates.depth > 1:
        raise GraphError(f"look-ups {name!r} are in a loop, where times have rounds, too: use its result")
    description = updates.description
    with description.all_or_nothing():
        side = arranged(updates, f"lookup {name}")
        description.register("lookup", name, description.size)
        side.stream._operator(f"lookup {name}", [], 0, build_lookups(side.operator.name), [SameWorkerPact()])
