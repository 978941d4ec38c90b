"""Having an operator scheduled from outside: by another thread, an event, or the clock."""

from collections.abc import Callable


class Activator:
    """Has one operator scheduled on one worker, though nothing new may have arrived for it; from any thread.

    >>> from tidewheel import Dataflow, run
    >>> def build(context):
    ...     token, left = context.token(), [3, 2, 1]
    ...
    ...     def schedule(output):
    ...         output.send(token, [left.pop(0)])
    ...         if left:
    ...             context.activator.after(0.01)
    ...         else:
    ...             token.discard()
    ...
    ...     return schedule
    >>> flow = Dataflow("countdown")
    >>> [numbers] = flow.operator("countdown", [], 1, build)
    >>> _ = numbers.capture("numbers")
    >>> with run(flow, engine="local") as job:
    ...     job.wait()
    ...     [entry.batch for entry in job.captured("numbers")]
    [[3], [2], [1]]
    """

    __slots__ = ("_activate", "_activate_after")

    def __init__(self, activate: Callable[[], None], activate_after: Callable[[float], None]) -> None:
        self._activate = activate
        self._activate_after = activate_after

    def __call__(self) -> None:
        """Have the operator scheduled in the worker's next step."""
        self._activate()

    def after(self, seconds: float) -> None:
        """Have the operator scheduled once so many seconds have passed; not at all if the job ends before.

        Raises:
            ValueError: ``seconds`` is negative, or no number.
        """
        if not seconds >= 0:
            raise ValueError(f"an operator can be scheduled after some seconds, 0 or more, not after {seconds!r}")
        self._activate_after(seconds)
