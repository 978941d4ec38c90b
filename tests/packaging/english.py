"""The English of the project: its words, and the sentences of pages, docstrings of public names, and messages.

The rules are the usual word, at most 25 words a sentence, and a subject that acts.
`python -m tests.packaging.layout [FOLDER]` prints the offenders.
"""

import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tests.packaging.layout import MOST_WORDS, sentences
from tests.packaging.repository import ROOT, name_of, shipped_modules, tree_of

PUBLIC_MODULES = ("tidewheel", "tidewheel.pubsub.gateway", "tidewheel.spark_bridge")
"""Modules whose `__all__` is what users import."""

USUAL_WORDS = {
    r"(every|some|any|no)body": "the component: worker, subscriber, publisher; or you",
    r"^(What|Who|Whoever|Whose|That which)\b(?= .* .* )(?!.*\?$)": "a subject: the record, the subscriber, you",
    r"(?:[,;:]|\b(?:and|or|but|so|for|to|of|by|that|than|if|as)) who(?:ever)?(?! (?:is|are) allowed)": "a subject",
    r"of what (?:comes|came)|what (?:comes|came|comes out) of|that which": "the results of",
    r"what (?:it|they|all|that|these|those) comes? to": "the result",
    r"what there is|what is to be|what is (?:there|wanted)|what was (?:given|sent) out": "the noun",
    r"one (?:may|can|could|must|should|has to|wants|knows|sees)": "you",
    r"oblivious": "stateless",
    r"(?:give|gives|gave|given|giving) (?:away|out|back)": "send, return",
    r"(?:take|takes|took|taken|taking) in(?! \w+ (?:seconds|minutes))": "receive",
    r"(?:is|are|was|were|be|been) over(?=[,.;:]|$| (?:and|when|once|if))": "closed, finished",
    r"(?:is|are|was|were) held for": "waits for",
    r"some (?:hundred|thousand|tens?|dozen)s?": "at least, about, with a number",
    r"(?:is|are|was|were) told": "receives an error, learns, is notified",
    r"hands? (?:on|over)|handed (?:on|over)": "pass, transfer",
    r"anew": "again",
    r"in place of": "instead of",
    r"upon|whereupon|thereof|therein|thereby|hitherto|lest|shall|whilst|amongst|ere": "when, on, of it, must, while",
    r"works? off|worked off": "process",
    r"lets? go of": "release, delete",
    r"gets? (?:to know|through)|got through": "learn, arrive",
    r"for ever": "forever",
}
"""Words that we do not write, as patterns of whole words, and the usual ones.

Messages begin with a small letter, and so do explanations of arguments. In these "what to do" may stand for a noun.
"""

_REFUSED = [
    (re.compile(text), usual)
    if text.startswith("^")
    else (re.compile(rf"(?:(?<![\w`'])|(?=[,;:]))(?:{text})(?![\w`])", re.IGNORECASE), usual)
    for text, usual in USUAL_WORDS.items()
]
_END = re.compile(r"(?<=[.!?])[)\"'*]*\s+(?=[\"'(*`]*[A-Z`\d])")
_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields|Source|Example|Examples|Note):\s*$")
_ENTRY = re.compile(r"^    \*{0,2}[\w.]+: ")
_FENCE = re.compile(r"^ *```")


class Sentence(NamedTuple):
    """A sentence, and the place where it stands: file and line."""

    place: str
    text: str


def long_sentences() -> list[str]:
    """The sentences of more than 25 words in pages and docstrings of public names; `layout` has those in messages."""
    return [
        f"{place}: {words} words: {text}"
        for place, text in (*pages(), *docstrings())
        if (words := len(text.split())) > MOST_WORDS
    ]


def unusual_words() -> list[str]:
    """The sentences with a word for which the project has a usual one."""
    return [
        f"{place}: {found[0].strip()!r} -> {usual}: {text}"
        for place, text in (*messages(), *pages(), *docstrings())
        for found, usual in refused(text)
    ]


def refused(sentence: str) -> Iterator[tuple[re.Match[str], str]]:
    """The words of a sentence that we do not write, each with what stands for it."""
    return ((found, usual) for pattern, usual in _REFUSED if (found := pattern.search(sentence)))


@cache
def messages() -> list[Sentence]:
    """The sentences of texts in the code that are no docstrings."""
    return [
        Sentence(f"{name_of(path)}:{line}", text[:1].upper() + text[1:])
        for path in shipped_modules()
        for line, text in sentences(tree_of(path))
    ]


@cache
def pages() -> list[Sentence]:
    """The sentences of the README and of the pages in docs/."""
    return [
        Sentence(f"{name_of(path)}:{line}", text)
        for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
        for line, text in page_sentences(path.read_text("utf-8"))
    ]


def page_sentences(text: str) -> Iterator[tuple[int, str]]:
    """The sentences of a Markdown page outside of its blocks, with their lines; each cell and item by itself."""
    fenced = False
    paragraph: list[str] = []
    start = 0
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        fence = _FENCE.match(line) is not None
        begins = re.match(r"^\s*([-*>#|]|\d+\.|!!!|$)", line) is not None or line.startswith("    ")
        if (fence or fenced or begins) and paragraph:
            yield from _split(paragraph, start)
            paragraph = []
        if fenced or fence or (line.startswith("    ") and not paragraph):
            fenced ^= fence
            continue
        if line.startswith("|"):
            yield from ((number, sentence) for cell in line.split("|") for _, sentence in _split([cell], number))
            continue
        if not paragraph:
            start = number
        bare = re.sub(r"^\s*(?:[-*>#]+|\d+\.|!!! \w+)\s*", "", line) if begins else line
        paragraph += [bare] if bare.strip() else []


def docstring_sentences(text: str) -> Iterator[tuple[int, str]]:
    """The sentences of a docstring, with the numbers of their lines in it; each argument by itself, no examples."""
    paragraph: list[str] = []
    start = 0
    example = False
    for number, line in enumerate([*text.splitlines(), ""]):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        begins = example or not line.strip() or _SECTION.match(line) or _ENTRY.match(line)
        if begins and paragraph:
            yield from _split(paragraph, start)
            paragraph = []
        if example or _SECTION.match(line) or not line.strip():
            continue
        if not paragraph:
            start = number
        paragraph.append(_ENTRY.sub("", line))


def _split(paragraph: list[str], line: int) -> Iterator[tuple[int, str]]:
    """The sentences of the lines of a paragraph, each with the line of the paragraph; code is one word."""
    text = " ".join(part.strip() for part in paragraph)
    text = re.sub(r"(`+).+?\1", "`x`", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text))
    yield from ((line, sentence) for sentence in _END.split(text.strip()) if sentence)


@cache
def docstrings() -> list[Sentence]:
    """The sentences of the docstrings of public names and of their public methods."""
    texts: dict[str, str] = {}
    for module in map(importlib.import_module, PUBLIC_MODULES):
        for documented in _documented(module):
            place, text = _place(documented), inspect.getdoc(documented)
            if place is not None and text is not None:
                texts[place] = text
    return [Sentence(place, text) for place, whole in texts.items() for _, text in docstring_sentences(whole)]


def _documented(module: ModuleType) -> Iterator[Any]:
    for name in module.__all__:
        thing = getattr(module, name)
        yield thing
        if inspect.isclass(thing):
            members = (inspect.getattr_static(thing, member) for member in dir(thing) if not member.startswith("_"))
            yield from (getattr(member, "fget", None) or getattr(member, "__func__", member) for member in members)


def _place(thing: Any) -> str | None:
    """Return the file and line of a class or function of ours, or None."""
    thing = inspect.unwrap(thing) if callable(thing) else thing
    if not (inspect.isclass(thing) or inspect.isfunction(thing)) or not thing.__module__.startswith("tidewheel"):
        return None
    source = inspect.getsourcefile(thing)
    assert source is not None
    return f"{name_of(Path(source).resolve())}:{inspect.getsourcelines(thing)[1]}"
