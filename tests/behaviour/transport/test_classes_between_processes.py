"""Records of a main program's classes, and functions that know the classes, in another process and back again."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
_KINDS = (ROOT / "tests/ray/class_program.py").read_text().rpartition("\nif __name__")[0]
_PROGRAM = """
import pickle, subprocess
from tidewheel.transport.frames import dumps
from tidewheel.host.program_classes import share_tracker
import cloudpickle, ray.cloudpickle

share_tracker()  # as a process does that joins a cluster
records = [make(number, n) for number in range(len(KINDS)) for n in range(2)]
methods = {name: value for kind in KINDS for name, value in vars(kind).items() if hasattr(value, "__code__")}
library = ray.cloudpickle if sys.argv[2] == "ray" else cloudpickle
parts = library.dumps(lambda: [KINDS, shown]), dumps(records)
order = [0, 1] if sys.argv[3] == "function first" else [1, 0]
answer = subprocess.run([sys.executable, "-c", sys.argv[1]], input=pickle.dumps((parts, order)), capture_output=True)
assert answer.returncode == 0, answer.stderr.decode()
found, again, kinds = pickle.loads(answer.stdout)
say({
    "there": [one for one in found if one[2] is not True],
    "back": [str(old) for old, new in zip(records, again, strict=True) if type(old) is not type(new) or old != new],
    "members": [one is two for one, two in zip(records, again) if isinstance(one, Enum)] == [True] * 6,
    "classes": [kind.__qualname__ for kind, came in zip(KINDS, kinds, strict=True) if kind is not came],
    "methods": methods == {name: value for kind in KINDS for name, value in vars(kind).items() if name in methods},
})
"""
_PEER = """
import pickle, sys
import ray.cloudpickle  # as in each process of Ray
parts, order = pickle.loads(sys.stdin.buffer.read())
from tidewheel.transport.frames import dumps
loaded = {number: pickle.loads(parts[number]) for number in order}
kinds, shown = loaded[0]()
sys.stdout.buffer.write(dumps([list(map(shown, loaded[1])), loaded[1], kinds]))
"""


def said(program: str, *arguments: str) -> Any:
    """Return what a program says; it is the main program of its process."""
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("library", ["cloudpickle", "ray"])
@pytest.mark.parametrize("order", ["function first", "records first"])
def test_each_kind_of_class_is_one_class_there_and_back(library: str, order: str) -> None:
    """By whichever pickler a function came; the program's own classes stay as they are when they come back."""
    found = said(_KINDS + _PROGRAM, _PEER, library, order)
    assert found == {"there": [], "back": [], "members": True, "classes": [], "methods": True}


def test_importing_ray_is_not_needed() -> None:
    """A process that has not imported it when tidewheel is imported has Ray's copy of cloudpickle adopted later."""
    program = """
import sys, json
class Deposit: pass
from tidewheel.host.program_classes import share_tracker
from tidewheel.transport.frames import dumps
import pickle
assert "ray" not in sys.modules
sent = dumps(Deposit)
import ray.cloudpickle
early = ray.cloudpickle.dumps(Deposit)
share_tracker()
print(json.dumps([pickle.loads(one) is Deposit for one in (sent, early, ray.cloudpickle.dumps(Deposit))]))
"""
    assert said(program) == [True] * 3
