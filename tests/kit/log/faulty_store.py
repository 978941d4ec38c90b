"""An object store in memory that fails as a test says, and the log on it."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from tests.kit.log.faulty_files import ALL, IDENTITY
from tidewheel.host.retry import Retry
from tidewheel.pubsub.log.errors import StoreFailed
from tidewheel.pubsub.log.store_log import StoreLog

URL = "memory://logs/partition-0"


class Killed(BaseException):
    """The process has ended in the middle of a call."""


class Objects:
    """The objects, which all processes share.

    Attributes:
        by_name: their bytes.
        interrupts: called one after the other, one before each call of a store that can be interrupted.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, bytes] = {}
        self.interrupts: deque[Callable[[], object]] = deque()


class FaultyStore:
    """The objects as one process sees them.

    Attributes:
        calls: the names of the methods, with those of the objects.
        fails: so many calls fail, before they do anything.
        loses: so many puts are done, and their answers lost.
        conflicts: so many puts are refused, as if another one of the same name was on its way.
        calls_left: after so many calls the process is killed; None for never.
        is_main: whether interrupts come before its calls.
    """

    def __init__(self, objects: Objects, *, is_main: bool = True) -> None:
        self.objects = objects
        self.calls: list[tuple[str, str]] = []
        self.fails = self.loses = self.conflicts = 0
        self.calls_left: int | None = None
        self.is_main = is_main

    def _call(self, method: str, name: str) -> dict[str, bytes]:
        if self.is_main and self.objects.interrupts:
            self.objects.interrupts.popleft()()
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                raise Killed
        self.calls.append((method, name))
        if self.fails:
            self.fails -= 1
            raise StoreFailed(f"{URL}/{name} is not done: the store is busy")
        return self.objects.by_name

    def put_new(self, name: str, data: bytes) -> bool:
        by_name = self._call("put_new", name)
        if self.conflicts:
            self.conflicts -= 1
            return False
        is_new = name not in by_name
        by_name.setdefault(name, bytes(data))
        if self.loses:
            self.loses -= 1
            raise StoreFailed(f"{URL}/{name} is not written: the answer is lost")
        return is_new

    def read(self, name: str, size: int = 0) -> bytes | None:
        return self._call("read", name).get(name)

    def read_part(self, name: str, start: int, size: int) -> bytes | None:
        data = self._call("read_part", name).get(name)
        return None if data is None else data[start : start + size]

    def sizes(self, prefix: str) -> Mapping[str, int]:
        return {name: len(data) for name, data in self._call("sizes", prefix).items() if name.startswith(prefix)}

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            self._call("remove", name).pop(name, None)


def open_store_log(
    store: FaultyStore, segment_bytes: int = ALL, snapshot: bytes = b"", within_s: float = 5.0
) -> StoreLog:
    """Open the log of these tests, which tries a failing store again at once."""
    again = Retry(within_s=within_s, first_pause_s=0.0, on=StoreFailed)
    return StoreLog(store, URL, IDENTITY, segment_bytes=segment_bytes, snapshot=snapshot, again=again)
