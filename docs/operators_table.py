"""Writes docs/operators.md: all operators by theme, each with the first line of its docstring. Run by `make docs`."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import tidewheel as tw

PAGE = Path(__file__).with_name("operators.md")

_JOB = ("input", "probe", "captured", "lookup", "wait", "stop", "explain", "statistics", "add", "drop")
_INPUT = ("send", "advance_to", "close", "clone", "delayed")
_PROBE = ("wait_until", "has_completed", "has_reached", "advances")
_RESULTS = (
    tw.types.Captured,
    tw.types.WindowResult,
    tw.types.LateRecord,
    tw.types.Windowed,
    tw.types.IntervalJoined,
    tw.types.FailedRecord,
    tw.types.Branches,
)
_COLLECTIONS = "Methods of what `stream.as_collection()` returns: records with counts that change over time."
_RUNNING = "The end of `with tw.run(flow) as job:` waits until the job is complete. It raises if an input is open."

_TITLE = """\
# Operators

Written by `make docs` from the docstrings, which say more and have an example each: `help(tw.Stream.map)`.

Every operator takes `name=`, too: errors, `job.statistics()`, `explain` and drawings show it. Names are unique within
their scope: the second operator that is named "parse" is "parse-2".

## Keys

A key is None, a number, a string, bytes, a date, a time, a timedelta, a UUID, a member of an Enum, or a tuple of these,
also a named one. NumPy's scalars are keys, too. This is the same wherever an operator takes a key, and for the keys of
pairs in a collection. Equal keys are one key: 1, 1.0 and True are one, and so is each NaN, but 1 and "1" are two.

Where the whole record is the key, as for `distinct()` or `count()`, it may also be a dict or a list, or another object
that can be hashed and pickled. Records of a collection are hashable: use tuples instead of lists, sets and dicts.
"""


def page() -> str:
    """Return the whole page."""
    sections = [
        _section("Where streams begin", _pick(tw.Dataflow, "input", "source", "inbox", "from_topic", "dead_letters")),
        _section("Sources", _classes(lambda made: made.__name__.endswith("Source"))),
        *(section for theme in themes() for section in _theme(theme)),
        _section("Collections", _pick(tw.Collection, *public_methods(tw.Collection)), _COLLECTIONS),
        _section(
            "Loops by hand", [*_pick(tw.Dataflow, "scope", "feedback"), *_own(tw.types.Loop), *_own(tw.types.Feedback)]
        ),
        _section("Operators of your own", [*_own(tw.Stream), *_pick(tw.Dataflow, "operator")]),
        _section("Parts of an operator of your own", _within_operators()),
        _section("Sources of your own", _interfaces()),
        _section("To look at", _pick(tw.Dataflow, "explain", "to_mermaid")),
        _section("To run", [*_functions(tw.run), *_pick(tw.types.Job, *_JOB)], _RUNNING),
        _section("To feed and to wait", [*_pick(tw.types.InputHandle, *_INPUT), *_pick(tw.types.ProbeHandle, *_PROBE)]),
        _section(
            "To subscribe",
            [
                *_functions(tw.subscribe, tw.topics, tw.watch_topics, tw.relay),
                *_pick(tw.types.Subscription, "epochs", "poll", "to_arrow", "to_pandas", "statistics", "close"),
            ],
        ),
        _section(
            "What comes out",
            [*_fields(*_RESULTS), *_pick(tw.types.Grouping, "aggregate"), *_pick(tw.types.Epoch, "to_arrow")],
        ),
    ]
    return "\n".join([_TITLE, *filter(None, sections)])


def themes() -> list[type]:
    """Return the classes that a stream is made of, in order; each has the operators of one theme."""
    return [part for part in tw.Stream.__bases__ if list(_own(part))]


def public_methods(owner: type) -> Iterator[str]:
    """Yield the names of the methods that a class has for users, those that it inherits too."""
    yield from (name for name, _ in inspect.getmembers(owner, inspect.isfunction) if not name.startswith("_"))


def first_line(documented: Any) -> str:
    """Return the first line of a docstring, without the full stop; empty if there is none."""
    return (inspect.getdoc(documented) or "").partition("\n")[0].removesuffix(".")


def _theme(theme: type) -> Iterator[str]:
    words = re.findall(r"[A-Z][a-z]*", theme.__name__)
    yield _section(" ".join(words).capitalize(), _own(theme), f"{first_line(theme)}.")
    if theme.__name__ == "WindowOperators":
        yield _section("Windows", _classes(lambda made: made.__name__.endswith("Windows")))


def _section(title: str, rows: Iterable[tuple[str, str]], said: str = "") -> str:
    lines = [f"| `{_cell(signature)}` | {_cell(text)} |" for signature, text in rows]
    if not lines:
        return ""
    head = [f"## {title}", *(["", said] if said else [])]
    return "\n".join([*head, "", "| | |", "| --- | --- |", *lines, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _own(owner: type) -> Iterator[tuple[str, str]]:
    """Yield signature and first line of the public methods that a class does not inherit, in order of its source."""
    own = [name for name, member in vars(owner).items() if not name.startswith("_") and inspect.isfunction(member)]
    return _pick(owner, *own)


def _pick(owner: type, *names: str) -> Iterator[tuple[str, str]]:
    prefix = "" if issubclass(tw.Stream, owner) else f"{owner.__name__}."
    for name in names:
        method = getattr(owner, name)
        yield f"{prefix}{name}{_parameters(method, without=_is_for_all)}", first_line(method)


def _is_for_all(parameter: inspect.Parameter) -> bool:
    """Tell whether it is the ``name=`` that every operator has."""
    return parameter.name == "name" and parameter.kind is inspect.Parameter.KEYWORD_ONLY


def _functions(*functions: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    for function in functions:
        yield f"tw.{function.__name__}{_parameters(function)}", first_line(function)


def _within_operators() -> Iterator[tuple[str, str]]:
    yield from _attributes(tw.OperatorContext)
    yield from _own(tw.OperatorContext)
    yield from _properties(tw.OperatorContext)
    yield from _pick(tw.types.Notificator, "notify_at", "ready", "take")
    yield from _pick(tw.types.LentToken, "retain", "delayed")
    yield from _pick(tw.TimestampToken, "delayed", "downgrade", "clone", "discard")
    yield from _own(tw.OutputPort)
    yield "InputPort", first_line(tw.InputPort)
    yield from _properties(tw.InputPort)


def _attributes(owner: type) -> Iterator[tuple[str, str]]:
    """Yield the attributes of a class as its docstring has them, each up to the first full stop."""
    for name, text in re.findall(r"^    (\w+): ((?:.|\n {8})+)", inspect.getdoc(owner) or "", re.MULTILINE):
        said = " ".join(text.split()).partition(". ")[0].removesuffix(".")
        yield f"{owner.__name__}.{name}", said[0].upper() + said[1:]


def _properties(owner: type) -> Iterator[tuple[str, str]]:
    for name, member in vars(owner).items():
        if isinstance(member, property):
            yield f"{owner.__name__}.{name}", first_line(member)


def _fields(*owners: type) -> Iterator[tuple[str, str]]:
    """Yield the name of each class with its fields, and the first line of its docstring."""
    for owner in owners:
        yield f"{owner.__name__}({', '.join(vars(owner)['__annotations__'])})", first_line(owner)


def _classes(belongs: Callable[[type], bool]) -> Iterator[tuple[str, str]]:
    """Yield signature and first line of the public classes of tidewheel that belong to a section, by name."""
    for made in _public_classes():
        if belongs(made) and not _is_interface(made):
            yield f"{made.__name__}{_parameters(made)}", first_line(made)


def _interfaces() -> Iterator[tuple[str, str]]:
    for made in _public_classes():
        if made.__name__.endswith("Source") and _is_interface(made):
            yield made.__name__, first_line(made)


def _public_classes() -> list[type]:
    named = [(name, getattr(door, name)) for door in (tw, tw.types) for name in door.__all__]
    return [made for _, made in sorted(named, key=itemgetter(0)) if inspect.isclass(made)]


def _is_interface(made: type) -> bool:
    return inspect.isabstract(made) or getattr(made, "_is_protocol", False)


def _parameters(
    called: Callable[..., Any], without: Callable[[inspect.Parameter], bool] = lambda parameter: False
) -> str:
    """Return the parameters of a function or class, without self and types, and without some others."""
    signature = inspect.signature(called)
    shown = [_shown(one) for one in signature.parameters.values() if one.name != "self" and not without(one)]
    return str(signature.replace(parameters=shown, return_annotation=inspect.Signature.empty))


def _shown(parameter: inspect.Parameter) -> inspect.Parameter:
    default = parameter.default
    if inspect.isclass(default) and default is not inspect.Parameter.empty:
        default = _Name(default.__name__)
    return parameter.replace(annotation=inspect.Parameter.empty, default=default)


class _Name:
    """What is shown as a name, without quotes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
