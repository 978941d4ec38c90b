"""Streams that an operator returns side by side, such as results and late records.

An object that has them is no stream itself. Used as one it says which streams it has.
"""

from typing import NoReturn, TypeVar

Kind = TypeVar("Kind")


def no_stream_itself(kind: type[Kind]) -> type[Kind]:
    """Have a class with a stream in each attribute say which these are where it is used as a stream."""
    kind.__getattr__ = _name_the_streams  # type: ignore[attr-defined]
    return kind


def _name_the_streams(several: object, name: str) -> NoReturn:
    kind = type(several)
    message = f"{kind.__name__!r} object has no attribute {name!r}"
    names: tuple[str, ...] = getattr(kind, "__match_args__", ()) or tuple(vars(several))
    if not name.startswith("_") and name not in names:
        shown = " and ".join(filter(None, (", ".join(f".{one}" for one in names[:-1]), f".{names[-1]}")))
        message += f"; it has the streams {shown}"
        if hasattr(type(getattr(several, names[0])), name):
            message += f": call {name} of one of them, such as .{names[0]}.{name}(...)"
    raise AttributeError(message, name=name, obj=several)
