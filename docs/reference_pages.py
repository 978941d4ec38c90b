"""Writes the reference of `docs/reference/` into its pages, from signatures and docstrings. Run by `make docs`.

A page has its own text, and a pair of comments for each name. Everything between the two comments is written anew:

    <!-- reference: tidewheel.Collection (members, without join) -->
    <!-- end of reference -->

`made` shows how to make an object of a class. `members` leaves the heading of the class out. `only` names the members
that are shown, and `without` those that stay out.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import griffe

FOLDER = Path(__file__).with_name("reference")
_SOURCES = Path(__file__).resolve().parents[1] / "src"
_PART = re.compile(
    r"(?P<begin><!-- reference: (?P<name>[\w.]+)(?: \((?P<options>[^)]*)\))? -->\n).*?"
    r"(?P<end><!-- end of reference -->)",
    re.DOTALL,
)
_LONGEST_LINE = 100
Found: TypeAlias = Any
"""A described object: an object of Griffe or an alias of one, whose attributes only the alias declares."""

_TITLES = {
    griffe.DocstringSectionKind.parameters: "Arguments",
    griffe.DocstringSectionKind.attributes: "Attributes",
    griffe.DocstringSectionKind.raises: "Raises",
    griffe.DocstringSectionKind.returns: "Returns",
    griffe.DocstringSectionKind.yields: "Yields",
}


def pages() -> dict[Path, str]:
    """Return each page that has parts of the reference, with these parts written anew."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
    return {path: _PART.sub(_written, text) for path, text in texts.items() if _PART.search(text)}


def described(name: str, options: Iterable[str] = ()) -> str:
    """Return the Markdown for one public name; raise KeyError if there is none."""
    found = package()[name.removeprefix("tidewheel.")]
    chosen = {option.split()[0]: option.split()[1:] for option in options}
    if unknown := chosen.keys() - {"made", "members", "only", "without"}:
        raise ValueError(f"{name}: there is no option {sorted(unknown)}")
    parts = [] if "members" in chosen else [*_described(name, found, 3, is_made="made" in chosen)]
    if found.is_class:
        for member in _members(found, only=chosen.get("only"), without=chosen.get("without", [])):
            parts += _described(f"{name}.{member.name}", member, 4)
    return "\n\n".join(parts)


@cache
def package() -> Found:
    """Return the package as it is written; nothing is imported."""
    return griffe.load("tidewheel", search_paths=[_SOURCES], docstring_parser="google", allow_inspection=False)


def fenced(docstring: str) -> str:
    """Return a docstring whose examples, up to the next empty line each, are blocks of code."""
    return "\n".join(_fenced_lines(docstring.splitlines()))


def _fenced_lines(lines: list[str]) -> Iterator[str]:
    indent: str | None = None
    for line in lines:
        if indent is None and line.lstrip().startswith(">>> "):
            indent = line[: len(line) - len(line.lstrip())]
            yield f"{indent}```pycon"
        elif indent is not None and not line.strip():
            yield f"{indent}```"
            indent = None
        yield line
    if indent is not None:
        yield f"{indent}```"


def _written(part: re.Match[str]) -> str:
    options = [option.strip() for option in (part["options"] or "").split(",") if option.strip()]
    return f"{part['begin']}\n{described(part['name'], options)}\n\n{part['end']}"


def _members(found: Found, *, only: list[str] | None, without: list[str]) -> list[Found]:
    """Return the public members that have a docstring, in the order of the source."""
    members = {name: one for name, one in found.members.items() if only is None or name in only}
    public = [one for name, one in members.items() if not name.startswith("_") and name not in without]
    return sorted(
        (one for one in public if one.docstring and not one.is_module),
        key=lambda one: (str(one.filepath), one.lineno or 0),
    )


def _described(name: str, found: Found, level: int, *, is_made: bool = False) -> Iterator[str]:
    """Yield the blocks of Markdown for one object: heading, signature, and the sections of its docstring."""
    yield f'<a id="{name}"></a>\n{"#" * level} `{found.name}`'
    initial = found.members.get("__init__") if found.is_class and is_made else None
    function = initial if initial is not None else found
    if function.is_function:
        yield f"```python\n{_signature(found.name, function)}\n```"
    elif found.is_attribute and found.annotation is not None:
        yield f"```python\n{found.name}: {found.annotation}\n```"
    for one in (found, initial):
        if one is not None and one.docstring:
            yield from _sections(one.docstring)


def _signature(name: str, function: Found) -> str:
    """Return a signature, on one line if it fits."""
    shown: list[str] = []
    kinds = [one.kind for one in function.parameters]
    for number, one in enumerate(function.parameters):
        if number == 0 and one.name in {"self", "cls"}:
            continue
        before = kinds[:number]
        if one.kind is griffe.ParameterKind.keyword_only and not {
            griffe.ParameterKind.keyword_only,
            griffe.ParameterKind.var_positional,
        } & set(before):
            shown.append("*")
        if griffe.ParameterKind.positional_only in before and before[-1] is not one.kind and "/" not in shown:
            shown.append("/")
        star = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(one.kind, "")
        default = "" if one.default is None or star else f" = {one.default}"
        shown.append(f"{star}{one.name}" + (f": {one.annotation}" if one.annotation else "") + default)
    returned = f" -> {function.returns}" if function.returns and function.name != "__init__" else ""
    line = f"{name}({', '.join(shown)}){returned}"
    if len(line) <= _LONGEST_LINE:
        return line
    return "\n".join([f"{name}(", *(f"    {one}," for one in shown), f"){returned}"])


def _sections(docstring: griffe.Docstring) -> Iterator[str]:
    prepared = griffe.Docstring(fenced(docstring.value), parent=docstring.parent)
    for section in prepared.parse("google", warnings=False):
        if section.kind is griffe.DocstringSectionKind.text:
            yield section.value
        elif section.kind is griffe.DocstringSectionKind.admonition:
            yield f"**{section.title or section.value.kind}** {section.value.description}"
        elif section.kind is griffe.DocstringSectionKind.examples:
            yield "\n\n".join(value for _, value in section.value)
        else:
            yield f"**{_TITLES[section.kind]}**"
            yield "\n".join(_item(one) for one in section.value)


def _item(one: griffe.DocstringElement) -> str:
    """Return an entry of a list: the name or the type, and the description."""
    name = getattr(one, "name", "") or one.annotation or ""
    description = one.description.replace("\n", "\n  ")
    return f"- `{name}`: {description}" if name else f"- {description}"


def _main() -> None:
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    _main()
