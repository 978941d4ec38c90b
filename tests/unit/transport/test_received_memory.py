"""Memory for received payloads is used again, and never while somebody can still read what is there."""

import numpy as np
import pyarrow as pa

from tidewheel.transport.received_memory import KEPT_BYTES, ReceivedMemory

SIZE = 100_000


def address(view: memoryview) -> int:
    found: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return found


def test_memory_comes_again_once_nobody_has_it() -> None:
    """Also for a payload that is a little smaller; a much smaller one would waste it."""
    memory = ReceivedMemory()
    place = address(memory.lend(SIZE))
    assert address(memory.lend(SIZE - 1)) == place
    assert address(memory.lend(SIZE // 3)) != place


def test_what_was_made_of_it_without_a_copy_keeps_it() -> None:
    """Slices, arrays and Arrow buffers of it, after the first view has gone."""
    memory = ReceivedMemory()
    for keep in (lambda view: view[10:20], lambda view: np.frombuffer(view, np.uint8)[5:], pa.py_buffer):
        view = memory.lend(SIZE)
        place, kept = address(view), keep(view)
        del view
        assert address(memory.lend(SIZE)) != place
        del kept
        assert place in {address(one) for one in [memory.lend(SIZE) for _ in range(3)]}


def test_what_waits_to_be_used_again_is_bounded() -> None:
    """By bytes, and a payload that is larger than all of them waits for nobody."""
    memory = ReceivedMemory()
    held = [memory.lend(KEPT_BYTES // 4) for _ in range(9)]
    places = {address(view) for view in held}
    assert len(places) == 9
    del held
    again = {address(view) for view in [memory.lend(KEPT_BYTES // 4) for _ in range(9)]}
    assert len(memory._arrays) == 4
    assert len(again) == 9
    memory.lend(KEPT_BYTES + 1)
    assert sum(map(len, memory._arrays)) <= KEPT_BYTES
