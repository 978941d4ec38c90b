"""The SIGTERM handler of a driver. Ray replaces it by one that prints a trace of C++ and aborts the process."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_EXIT_CODE = 128


class Terminated(SystemExit):
    """SIGTERM ends the program, also where it runs an operator: unlike `sys.exit` it is no failure of that operator."""


@contextmanager
def keeping_sigterm() -> Iterator[None]:
    """Let the program have its own handler of SIGTERM again, after Ray may have replaced it; for the main thread only.

    A program without a handler ends as after ``sys.exit(143)``, so ``with`` blocks and ``finally`` clauses run.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(before):  # also where it is still there: a `ray.shutdown` before has replaced it by C++
            signal.signal(signal.SIGTERM, before)
        elif signal.getsignal(signal.SIGTERM) is not before:
            signal.signal(signal.SIGTERM, _exit if before is None or before == signal.SIG_DFL else before)


def _exit(number: int, frame: FrameType | None) -> None:
    raise Terminated(_EXIT_CODE + number)
