"""The product's lines of code, without docstrings, comments and blank lines.

`python -m tests.packaging.count_lines` prints them for each folder and in all.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from functools import cache

from tests.packaging.repository import name_of, shipped_modules, tree_of

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(source: str, tree: ast.Module | None = None) -> int:
    """Return how many lines of a module hold code; every line of a text that is no docstring does."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - _docstring_lines(tree or ast.parse(source)))


def _docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, _DOCUMENTED) or not node.body:
            continue
        match node.body[0]:
            case ast.Expr(value=ast.Constant(value=str())) as docstring:
                lines.update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return lines


@cache
def folder_lines() -> Counter[str]:
    """Return the lines of code of each folder's own modules."""
    counted: Counter[str] = Counter()
    for path in shipped_modules():
        counted[name_of(path).rpartition("/")[0]] += code_lines(path.read_text(), tree_of(path))
    return counted


def product_lines() -> int:
    """Return the lines of code of the product."""
    return folder_lines().total()


def lines_under(root: str, *, without: str = "none") -> int:
    """Return the lines of code of a folder and its subfolders, without those of one of them."""
    counted = folder_lines()
    inside = [folder for folder in counted if f"{folder}/".startswith(f"{root}/")]
    return sum(counted[folder] for folder in inside if not f"{folder}/".startswith(f"{without}/"))


def _main() -> None:
    pubsub = lines_under("pubsub", without="pubsub/gateway")
    rows = [*sorted(folder_lines().items()), ("pubsub without the gateway", pubsub), ("all", product_lines())]
    sys.stdout.writelines(f"{name:40} {count:6}\n" for name, count in rows)


if __name__ == "__main__":
    _main()
