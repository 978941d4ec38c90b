"""The offenders against the rules of the layout, for the tests and for people.

`python -m tests.packaging.layout [FOLDER]` prints those of a folder, such as `pubsub/log`, or all of them.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.packaging.repository import FACADE, ROOT, all_modules, imports_of, name_of, shipped_modules, tree_of

CROWD_LINES = 350
MOST_METHODS = 30
MOST_WORDS = 25
LARGEST_CIRCLE = 2

_QUESTION = re.compile(r"(What|Who|How|Where|When|Which|Whether)\b")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\s*\n\s*")


def unit_tests_without_module() -> list[str]:
    """The files in tests/unit/ whose module does not exist: `tests/unit/a/b/test_c.py` tests `a/b/c.py`."""
    unit = ROOT / "tests" / "unit"
    tests = sorted(path for path in unit.rglob("*.py") if path.name not in {"conftest.py", "__init__.py"})
    return [name_of(path) for path in tests if not _tested_module(path.relative_to(unit)).is_file()]


def _tested_module(test: Path) -> Path:
    return ROOT / test.parent / test.name.removeprefix("test_") if test.name.startswith("test_") else ROOT / "none"


def import_circles() -> list[list[str]]:
    """The groups of more than two modules that import each other, directly or not, for types too; largest first."""
    modules = {_dotted(path): path for path in shipped_modules()}
    edges = {name: _imported(name, path, modules) for name, path in modules.items()}
    found = [sorted(name_of(modules[name]) for name in group) for group in strongly_connected(edges)]
    return sorted((group for group in found if len(group) > LARGEST_CIRCLE), key=lambda group: (-len(group), group))


def _dotted(path: Path) -> str:
    place = path.relative_to(FACADE if path.parent == FACADE else ROOT).with_suffix("")
    return ".".join(("tidewheel", *(part for part in place.parts if part != "__init__")))


def _imported(importer: str, path: Path, modules: dict[str, Path]) -> set[str]:
    found = set()
    for imported in imports_of(path):
        name = imported.name
        while name and name not in modules:
            name = name.rpartition(".")[0]
        found.add(name)
    return found - {"", importer}


def strongly_connected(edges: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected components of a graph with more than one node. Source: Kosaraju and Sharir."""
    order: list[str] = []
    _visit(sorted(edges), edges, order.append)
    backwards: dict[str, set[str]] = defaultdict(set)
    for start, ends in edges.items():
        for end in ends:
            backwards[end].add(start)
    seen: set[str] = set()
    groups = []
    for root in reversed(order):
        group: list[str] = []
        _visit([root], backwards, group.append, seen)
        groups.append(set(group))
    return [group for group in groups if len(group) > 1]


def _visit(
    roots: list[str], edges: dict[str, set[str]], leave: Callable[[str], None], seen: set[str] | None = None
) -> None:
    """Walk depth first from each root to what is not seen, and call `leave` for a node after those it leads to."""
    seen = set() if seen is None else seen
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        path = [(root, iter(sorted(edges.get(root, ()))))]
        while path:
            node, rest = path[-1]
            following = next((end for end in rest if end not in seen), None)
            if following is None:
                path.pop()
                leave(node)
            else:
                seen.add(following)
                path.append((following, iter(sorted(edges.get(following, ())))))


def crowded_files() -> list[str]:
    """The shipped files of more than 350 lines."""
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in shipped_modules()}
    return [f"{name}: {length} lines" for name, length in lengths.items() if length > CROWD_LINES]


def large_classes() -> list[str]:
    """The shipped classes with more than 30 methods; the variants of an overloaded one count once."""
    return [
        f"{name_of(path)}: {node.name} has {count} methods"
        for path in shipped_modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
        if (count := len(method_names(node))) > MOST_METHODS
    ]


def method_names(node: ast.ClassDef) -> set[str]:
    """The names of the functions that a class defines."""
    return {child.name for child in node.body if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)}


def questioning_docstrings() -> list[str]:
    """The modules, but for tests, whose docstring begins with a question word and not with a noun phrase."""
    modules = [path for path in all_modules() if not name_of(path).startswith("tests/")]
    found = {name_of(path): ast.get_docstring(tree_of(path)) or "" for path in modules}
    return [f"{name}: {text.splitlines()[0]}" for name, text in found.items() if _QUESTION.match(text)]


def long_sentences() -> list[str]:
    """The sentences of more than 25 words in texts of the program: errors, advice, notes of the log."""
    return [
        f"{name_of(path)}:{line}: {len(sentence.split())} words: {sentence}"
        for path in shipped_modules()
        for line, sentence in sentences(tree_of(path))
        if len(sentence.split()) > MOST_WORDS
    ]


def sentences(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The sentences of all literal texts but docstrings, with their lines; a placeholder is the word `{}`.

    A line break ends a sentence. A text that is joined of others with `+` counts as a whole, and its parts do, too.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Constant | ast.JoinedStr | ast.BinOp):
            for text in _texts(child):
                yield from ((child.lineno, sentence) for sentence in _SENTENCE_END.split(text))
        is_docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        if not is_docstring and not isinstance(child, ast.JoinedStr):
            yield from sentences(child)


def _texts(node: ast.expr) -> list[str]:
    """What an expression may say: one text, or one for each branch of a condition."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(_texts(part)[0] for part in parts)]
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return [before + after for before in _texts(left) for after in _texts(right)]
        case ast.IfExp(body=body, orelse=otherwise):
            return [*_texts(body), *_texts(otherwise)]
        case _:
            return ["{}"]


def _main(folder: str) -> None:
    """Print the offenders in a folder, and the circles that pass through it."""
    from tests.packaging import english  # which uses `sentences`

    circles = [f"{len(group)} files: {' '.join(group)}" for group in import_circles()]
    rules = {
        "unit tests without their module": unit_tests_without_module(),
        "import circles of more than two files": circles,
        "files of more than 350 lines": crowded_files(),
        "classes of more than 30 methods": large_classes(),
        "module docstrings that begin with a question word": questioning_docstrings(),
        "messages with a sentence of more than 25 words": long_sentences(),
        "pages and docstrings with a sentence of more than 25 words": english.long_sentences(),
        "words for which there is a usual one": english.unusual_words(),
    }
    for rule, offenders in rules.items():
        shown = [offender for offender in offenders if folder in offender]
        sys.stdout.write("\n  ".join([f"{rule}: {len(shown)}", *shown]) + "\n")


if __name__ == "__main__":
    _main(sys.argv[1].removeprefix("./") if len(sys.argv) > 1 else "")
