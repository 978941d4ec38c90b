"""The agenda of a worker: the operators to run in this step, in the next, at some time, or on a condition."""

import heapq
from collections import deque
from collections.abc import Callable


class Agenda:
    """The operators to run, by number. In a step they run in the order of their numbers, each at most once.

    Only `activate_later` and `activate_after` are thread-safe.

    Args:
        wake: called after a request from another thread, to wake the worker.

    Attributes:
        running: the operator whose turn it is, -1 between two steps.
        was_cut: whether the last step ended before all operators had run.
        expected: the operators that another thread will activate, until they run; True for those that will then
            continue with records received earlier.
    """

    def __init__(self, clock: Callable[[], float] = lambda: 0.0, wake: Callable[[], None] = lambda: None) -> None:
        self._clock = clock
        self._wake = wake
        self._current: list[int] = []
        self._in_current: set[int] = set()
        self._next: set[int] = set()
        self._later: deque[int] = deque()
        self._asked: deque[tuple[float, int]] = deque()
        self._timers: list[tuple[float, int]] = []
        self.running = -1
        self.was_cut = False
        self.held: set[int] = set()
        self.expected: dict[int, bool] = {}

    def activate(self, operator: int) -> None:
        """Schedule an operator: in this step if its turn has not passed, otherwise in the next."""
        if operator > self.running and self.running >= 0:
            if operator not in self._in_current:
                self._in_current.add(operator)
                heapq.heappush(self._current, operator)
        else:
            self._next.add(operator)

    def activate_later(self, operator: int) -> None:
        """Schedule an operator in the next step; thread-safe."""
        self._later.append(operator)
        self._wake()

    def activate_after(self, operator: int, seconds: float) -> None:
        """Schedule an operator after some seconds; thread-safe."""
        self._asked.append((self._clock() + seconds, operator))
        self._wake()

    def left_s(self) -> float | None:
        """Return the seconds until the next timer, 0 if it is due; None without timers."""
        while self._asked:
            heapq.heappush(self._timers, self._asked.popleft())
        return max(0.0, self._timers[0][0] - self._clock()) if self._timers else None

    def let_go(self) -> None:
        self._next |= self.held
        self.held.clear()

    def begin(self) -> None:
        while self.left_s() == 0.0:
            self._next.add(heapq.heappop(self._timers)[1])
        while self._later:
            self._next.add(self._later.popleft())
        self._current = sorted(self._next)
        self._in_current, self._next = self._next, set()

    def pop(self) -> int | None:
        """Return the next operator to run; None at the end of the step."""
        if not self._current:
            self.running = -1
            return None
        self.running = heapq.heappop(self._current)
        self._in_current.discard(self.running)
        self.expected.pop(self.running, None)
        return self.running

    def end(self) -> None:
        """End the step. The remaining operators run in the next step."""
        self.was_cut = bool(self._current)
        self._next.update(self._current)
        self._current, self.running = [], -1

    @property
    def is_empty(self) -> bool:
        return not (self._next or self._later) and self.left_s() != 0.0

    def scheduled(self) -> frozenset[int]:
        """Return the operators that will run: now, on a condition, or when a thread has finished its work."""
        at_work = [operator for operator, is_at_work in self.expected.items() if is_at_work]
        return frozenset({*self._next, *self._later, *self.held, *at_work})

    def asked(self) -> frozenset[int]:
        """Return the operators that will run because they, or a thread, have asked for it."""
        timers = (operator for _, operator in [*self._timers, *self._asked])
        return frozenset({*self._later, *self.expected, *timers})

    def awaited(self) -> frozenset[int]:
        """Return the operators that will run only when another thread activates them."""
        return frozenset(self.expected).difference(self._next, self._later, self.held)
