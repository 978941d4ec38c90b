"""The SIGTERM handler of a driver: what the program chose stays, whatever a library installs."""

import ctypes
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tidewheel.host.sigterm import keeping_sigterm


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def join() -> None:
    """Replace the handler, as Ray does."""
    signal.signal(signal.SIGTERM, lambda number, frame: None)


@dataclass
class Unhashable:
    """A handler that is equal to others, so it has no hash."""

    def __call__(self, number: int, frame: object) -> None:
        """Do nothing."""


@pytest.mark.parametrize("own", [signal.SIG_IGN, lambda number, frame: None, Unhashable()])
def test_the_handler_of_the_program_stays(own: Any) -> None:
    """The program is told of SIGTERM as before."""
    signal.signal(signal.SIGTERM, own)
    with keeping_sigterm():
        join()
    assert signal.getsignal(signal.SIGTERM) is own


def test_a_program_without_a_handler_exits() -> None:
    """It leaves its blocks, with the exit code that shells give for SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with keeping_sigterm():
        join()
    with pytest.raises(SystemExit) as ended:
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 143


def test_a_library_that_installs_no_handler_changes_nothing() -> None:
    """SIGTERM still ends the program as the system does it."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with keeping_sigterm():
        pass
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_the_handler_of_the_program_is_there_again_after_ray_was_shut_down() -> None:
    """`ray.shutdown` resets it by C++, of which Python knows nothing; the process would end at once."""
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    change = ctypes.CDLL(None).signal
    change.argtypes, change.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    assert change(signal.SIGTERM, None) is not None
    with keeping_sigterm():
        pass
    assert change(signal.SIGTERM, None) is not None
