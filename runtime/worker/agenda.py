"""The agenda of a worker: the operators to schedule in this step, in the next, or once they may run."""

import heapq
from collections import deque
from collections.abc import Callable, Mapping


class Agenda:
    """Operators, by number, in the order in which they were described; each at most once a step.

    Everything but `activate_later` belongs to the worker's own thread.

    Args:
        wake: called when `activate_later` was; the worker may be asleep.
    """

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        self._wake = wake
        self._current: list[int] = []
        self._in_current: set[int] = set()
        self._next: set[int] = set()
        self._later: deque[int] = deque()
        self._held: set[int] = set()
        self._expected: dict[int, bool] = {}
        self._running = -1

    def activate(self, operator: int) -> None:
        """Schedule an operator: still in this step if its turn has not passed, else in the next."""
        if operator > self._running and self._running >= 0:
            if operator not in self._in_current:
                self._in_current.add(operator)
                heapq.heappush(self._current, operator)
        else:
            self._next.add(operator)

    def activate_later(self, operator: int) -> None:
        """Schedule an operator in the next step; from any thread."""
        self._later.append(operator)
        self._wake()

    def hold(self, operator: int) -> None:
        """Schedule an operator once `let_go` is called."""
        self._held.add(operator)

    def let_go(self) -> None:
        """Schedule, in the next step, the operators that are held."""
        self._next |= self._held
        self._held.clear()

    def expect(self, operator: int, *, at_work: bool) -> None:
        """Take note that another thread is going to activate an operator; that is forgotten when its turn comes.

        Args:
            operator: its number.
            at_work: whether it is to go on with what it has received, and not to get something new.
        """
        self._expected[operator] = at_work

    def begin(self) -> None:
        """Begin a step."""
        while self._later:
            self._next.add(self._later.popleft())
        self._current = sorted(self._next)
        self._in_current, self._next = self._next, set()

    def pop(self) -> int | None:
        """Return the operator whose turn it is, which is the running one from now on; None ends the step."""
        if not self._current:
            self._running = -1
            return None
        self._running = heapq.heappop(self._current)
        self._in_current.discard(self._running)
        self._expected.pop(self._running, None)
        return self._running

    @property
    def running(self) -> int:
        """The operator whose turn it is, -1 between two steps."""
        return self._running

    @property
    def expected(self) -> Mapping[int, bool]:
        """The operators that another thread is going to activate, and whether they are at work meanwhile."""
        return self._expected

    def is_at_work(self, operator: int) -> bool:
        """Tell whether another thread works for an operator, and will activate it."""
        return self._expected.get(operator, False)

    @property
    def is_empty(self) -> bool:
        """Whether no operator is to be scheduled now."""
        return not (self._next or self._later)

    @property
    def has_held(self) -> bool:
        """Whether operators are held."""
        return bool(self._held)

    def scheduled(self) -> frozenset[int]:
        """Return the operators that are to be scheduled: now, once they may, or when another thread is done."""
        at_work = [operator for operator, is_at_work in self._expected.items() if is_at_work]
        return frozenset({*self._next, *self._later, *self._held, *at_work})
