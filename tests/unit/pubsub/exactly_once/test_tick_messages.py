"""Messages by tick, against a dict."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.pubsub.exactly_once.tick_messages import TickMessages

RANGES = st.tuples(st.integers(0, 40), st.integers(0, 40))
CHANGES = st.lists(st.integers(0, 40) | RANGES, max_size=60)


def check(messages: TickMessages[str], model: dict[int, tuple[str, int]]) -> None:
    """All that can be asked for is as the dict has it."""
    assert messages.between(0, 100) == sorted((tick, message) for tick, (message, _) in model.items())
    assert messages.ticks(5, 20) == sorted(tick for tick in model if 5 <= tick < 20)
    assert all((tick in messages) == (tick in model) for tick in range(41))
    assert all(messages[tick] == message for tick, (message, _) in model.items())
    assert messages.bytes == sum(size for _, size in model.values())
    assert messages.oldest == min(model, default=None)
    for room, most in product((0, 1, 50, 10_000), (1, 3, 100)):
        assert messages.read(4, 30, room, most) == as_read(model, 4, 30, room, most)
    assert messages.last_before(20) == max((tick for tick in model if tick < 20), default=None)
    assert len(messages) == len(model)


def as_read(
    model: dict[int, tuple[str, int]], first: int, end: int, room: int, most: int
) -> tuple[list[tuple[int, str]], int]:
    """Take messages in order while there is room, but not too many, and one in any case; say how far that is all."""
    found: list[tuple[int, str]] = []
    for tick in sorted(tick for tick in model if first <= tick < end):
        if found and (room <= 0 or len(found) >= most):
            return found, found[-1][0] + 1
        found.append((tick, model[tick][0]))
        room -= model[tick][1]
    return found, end


def last_to_go(ticks: list[int], model: dict[int, tuple[str, int]], max_bytes: int) -> int | None:
    """Let messages go in the order of ``ticks`` until the rest fits; return where the last one was."""
    last, rest = None, sum(size for _, size in model.values())
    for tick in ticks:
        if rest > max_bytes:
            last, rest = tick, rest - model[tick][1]
    return last


@law_settings(300)
@given(changes=CHANGES, max_bytes=st.integers(0, 100))
def test_messages_are_kept_as_in_a_dict(changes: list[int | tuple[int, int]], max_bytes: int) -> None:
    """However they are added and removed: by tick, in order, with their bytes."""
    messages, model = TickMessages[str](), dict[int, tuple[str, int]]()
    for number, change in enumerate(changes):
        if isinstance(change, tuple):
            removed = sorted(tick for tick in model if change[0] <= tick < change[1])
            messages.remove(*change)
            for tick in removed:
                del model[tick]
        elif change not in model:
            messages.add(change, f"message {number}", size_bytes=change)
            model[change] = (f"message {number}", change)
        check(messages, model)
    assert messages.oldest_over(max_bytes) == last_to_go(sorted(model), model, max_bytes)
    assert messages.latest_over(max_bytes) == last_to_go(sorted(model, reverse=True), model, max_bytes)
    late = [tick for tick in sorted(model, reverse=True) if tick >= 20]
    assert messages.latest_over(max_bytes, after=20) == last_to_go(late, model, max_bytes)


def test_the_oldest_go_without_leaving_anything_behind() -> None:
    """Of a queue of 100 that 20,000 went through 100 are there at the end, and never many more in between."""
    messages = TickMessages[int]()
    longest = 0
    for tick in range(20_000):
        messages.add(tick, tick, size_bytes=1)
        if tick >= 100:
            messages.remove(0, tick - 99)
        longest = max(longest, len(messages._ticks))
    assert (len(messages), messages.bytes, messages.oldest) == (100, 100, 19_900)
    assert longest < 300
