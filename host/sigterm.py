"""The SIGTERM handler of a driver. Ray would replace it with a handler that prints a C++ trace and aborts."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_EXIT_CODE = 128


class Terminated(SystemExit):
    """Raised by SIGTERM to end the program.

    Unlike `sys.exit`, it does not count as a failure of the running operator.
    """


@contextmanager
def keeping_sigterm() -> Iterator[None]:
    """Keep the program's SIGTERM handler, which Ray may replace within the block; on the main thread only.

    If the program has none, SIGTERM ends it as ``sys.exit(143)`` does: ``with`` blocks and ``finally`` clauses run.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(before):  # even if the handler is in place: an earlier `ray.shutdown` may have replaced it in C++
            signal.signal(signal.SIGTERM, before)
        elif signal.getsignal(signal.SIGTERM) is not before:
            signal.signal(signal.SIGTERM, _exit if before is None or before == signal.SIG_DFL else before)


def _exit(number: int, frame: FrameType | None) -> None:
    raise Terminated(_EXIT_CODE + number)
