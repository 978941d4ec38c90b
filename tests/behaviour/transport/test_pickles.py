"""Pickles: by reference where other processes can import what a pickle names, else by value; buffers out of band."""

import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import cloudpickle
import numpy as np
import pytest

from tests.kit.messages import raises
from tidewheel.transport import frames
from tidewheel.transport.frames import dump_frames, dumps, unpicklable

_READ = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()))"


def read_elsewhere(pickled: bytes) -> str:
    """Return what another process prints of a pickle."""
    ran = subprocess.run([sys.executable, "-c", _READ], input=pickled, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout.decode().strip()


@pytest.fixture
def made_here() -> Iterator[Any]:
    """A module that only this process has."""
    module = ModuleType("made_here")
    exec("class Made:\n    def __repr__(self): return 'made'", module.__dict__)
    sys.modules["made_here"] = module
    yield module
    del sys.modules["made_here"]


def test_what_pickle_can_do_is_not_cloudpickled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain records, also such that mention the main program, and instances of classes that can be imported."""
    monkeypatch.setattr(frames, "dump_by_value", lambda *_, **__: pytest.fail("cloudpickle was asked"))
    mentions = [["__main__", 1], Counter({"if __name__ == '__main__':": 1, b"__main__": 2})]
    for value in ([1, "a", None], {"a": (1.5, b"x")}, Counter("ab"), *mentions):
        assert pickle.loads(dumps(value)) == value


def test_functions_and_classes_of_a_function_go_by_value() -> None:
    """As pickle cannot do that."""
    assert pickle.loads(dumps(lambda n: n + 1))(1) == 2


def test_what_is_registered_goes_by_value(made_here: Any) -> None:
    """Another process, which cannot import the module, can read it; without that it cannot."""
    with pytest.raises(AssertionError, match="No module named 'made_here'"):
        read_elsewhere(dumps(made_here.Made()))
    cloudpickle.register_pickle_by_value(made_here)
    try:
        assert read_elsewhere(dumps(made_here.Made())) == "made"
    finally:
        cloudpickle.unregister_pickle_by_value(made_here)


def test_classes_of_the_main_program_go_by_value() -> None:
    """Another process has another main program, though the records name it too."""
    program = """
import sys
from tidewheel.transport.frames import dumps
class Made:
    def __repr__(self): return "made"
sys.stdout.buffer.write(dumps([Made.__module__, {Made.__module__: Made()}]))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert read_elsewhere(ran.stdout) == "['__main__', {'__main__': made}]"


def test_large_buffers_are_frames_of_their_own() -> None:
    """Each once, whether pickle does it or cloudpickle; small ones stay in the pickle."""
    large, small = np.arange(1000), np.arange(3)
    for value in ([large, small], [large, small, lambda: None]):
        head, *buffers = dump_frames(value, large=1000)
        assert [buffer.nbytes for buffer in buffers] == [large.nbytes]
        found = pickle.loads(head, buffers=buffers)
        assert (found[0] == large).all()
        assert (found[1] == small).all()


class Refusing:
    """Cannot be pickled."""

    def __reduce__(self) -> Any:
        raise ValueError("not this one")


def test_what_cannot_be_pickled_is_named() -> None:
    """By what its own code raises."""
    with raises(pickle.PicklingError):
        dumps([Refusing()])
    assert unpicklable([Refusing()]) == "ValueError: not this one"
    assert unpicklable([1]) is None
