"""No operator is left out of the tests of types."""

import ast
from pathlib import Path

import tidewheel as tw
from docs.operators_table import public_methods


def asserted_methods() -> set[str]:
    """Return the names of the methods that are called within some `assert_type`."""
    folder = Path(__file__).parent
    trees = [ast.parse((folder / name).read_text(encoding="utf-8")) for name in ("test_streams.py", "test_loops.py")]
    return {
        part.func.attr
        for tree in trees
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "assert_type"
        for part in ast.walk(call)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)
    }


def test_every_operator_has_its_types_asserted() -> None:
    """Whoever adds a method to streams says in test_streams.py or test_loops.py what types it has."""
    assert set(public_methods(tw.Stream)) - asserted_methods() == set()
