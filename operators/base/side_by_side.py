"""Several streams that an operator returns together, such as results and late records.

The object with the streams is not itself a stream. Using it as one raises an error that names the streams.
"""

from typing import NoReturn, TypeVar

Kind = TypeVar("Kind")


def no_stream_itself(kind: type[Kind]) -> type[Kind]:
    """Decorate a class that holds streams: using an instance as a stream raises an error that names its streams."""
    kind.__getattr__ = _name_the_streams  # type: ignore[attr-defined]
    return kind


def what_to_give(other: object) -> str:
    """Return the end of an error message: the streams to pass instead of the object; empty if the object holds none."""
    if getattr(type(other), "__getattr__", None) is not _name_the_streams:
        return ""
    return f": give one of its streams {_listed(_names(other), 'or')}"


def _names(several: object) -> tuple[str, ...]:
    names: tuple[str, ...] = getattr(type(several), "__match_args__", ()) or tuple(vars(several))
    return names


def _listed(names: tuple[str, ...], word: str) -> str:
    return f" {word} ".join(filter(None, (", ".join(f".{one}" for one in names[:-1]), f".{names[-1]}")))


def _name_the_streams(several: object, name: str) -> NoReturn:
    message = f"{type(several).__name__!r} object has no attribute {name!r}"
    names = _names(several)
    if not name.startswith("_") and name not in names:
        message += f"; it has the streams {_listed(names, 'and')}"
        if hasattr(type(getattr(several, names[0])), name):
            message += f": call {name} of one of them, such as .{names[0]}.{name}(...)"
    raise AttributeError(message, name=name, obj=several)
