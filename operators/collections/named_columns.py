"""The names of a collection's columns: the key first, no name twice."""

from collections.abc import Mapping, Sequence
from functools import partial

from tidewheel.operators.collections.update_stream import UpdateStream
from tidewheel.operators.keys.columns import Expression, is_expression
from tidewheel.progress import GraphError


def checked_columns(name: str, columns: object) -> tuple[str, ...]:
    """Return the names of the columns of a record; raise GraphError if the argument is wrong."""
    names = (columns,) if isinstance(columns, str) else columns
    if (
        not isinstance(names, list | tuple)
        or not names
        or not all(isinstance(one, str) and one for one in names)
        or len(set(names)) < len(names)
    ):
        raise GraphError(
            f"operator {name!r}: columns= has the names of the columns of a record, the key first and each once, "
            f"not {columns!r}"
        )
    return tuple(names)


def check_fields(name: str, updates: UpdateStream, expressions: Sequence[Expression]) -> None:
    """Raise GraphError if the columns have no names, or an expression needs a missing column."""
    import pyarrow as pa

    from tidewheel.operators.tables.projection import Projection

    if not updates.columns:
        raise GraphError(
            f"operator {name!r}: {updates.with_columns()}: name them, as in map(function, columns=['user', 'item']) "
            "or as_collection(columns=['user', 'item'])"
        )
    empty = pa.table({column: pa.nulls(0) for column in updates.columns})
    for expression in expressions:
        try:
            Projection((), {"made": expression}).of(empty)
        except ValueError as error:
            if "FieldRef" in str(error):
                missing = str(error).partition("FieldRef.Name(")[2].partition(")")[0]
                raise GraphError(
                    f"operator {name!r}: there is no column {missing!r}, which {expression} needs; "
                    f"{updates.with_columns()}"
                ) from error


def selected(
    name: str, updates: UpdateStream, names: Sequence[str], expressions: Mapping[str, Expression | str]
) -> UpdateStream:
    """Return records with the columns ``names`` and ``expressions``; raise GraphError if an argument is wrong."""
    from tidewheel.operators.collections import rows
    from tidewheel.operators.tables.projection import Projection

    made = {column: one for column, one in expressions.items() if is_expression(one)}
    for column, one in expressions.items():
        if column not in made:
            raise GraphError(
                f"operator {name!r}: {column!r} is an expression of pyarrow.compute, such as pc.field('n') * 2, "
                f"not {one!r}"
            )
    columns = checked_columns(name, (*names, *made))
    check_fields(name, updates, list(made.values()))
    for column in names:
        if column not in updates.columns:
            raise GraphError(f"operator {name!r}: there is no column {column!r}; {updates.with_columns()}")
    return updates.stage(name, partial(rows.selected, Projection(names, made), updates.columns), columns)


def joined_columns(name: str, left: UpdateStream, right: UpdateStream) -> tuple[str, ...]:
    """Return the names of the key and of both sides' other columns; raise GraphError if a name occurs twice."""
    twice = [column for column in right.columns[1:] if column in left.columns]
    if twice:
        raise GraphError(
            f"operator {name!r}: {left.with_columns()}, and {right.with_columns()}, so two columns would be "
            f"named {twice[0]!r}: rename one before, as in select({right.columns[0]!r}, other=pc.field({twice[0]!r}))"
        )
    return (*left.columns, *right.columns[1:])


def key_and_value(name: str, updates: UpdateStream) -> tuple[str, ...]:
    """Return the names, which are either none or a key and one value; otherwise raise GraphError."""
    if len(updates.columns) > 2:
        raise GraphError(
            f"operator {name!r} adds up one column for each key, and {updates.with_columns()}: choose the key and "
            f"the column before, as in select({updates.columns[0]!r}, {updates.columns[-1]!r})"
        )
    return updates.columns
