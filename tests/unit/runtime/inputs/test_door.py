"""The door of an inbox: postings come in whole and in order while there is room, and count as saved by position."""

import pickle
import threading
from typing import Any

import pyarrow as pa
import pytest

from tidewheel.runtime.inputs.door import Door, Full, Post, Posting, Wrong


def decode(posting: Posting) -> Any:
    if posting.body == "wrong":
        raise ValueError("line 3: it is wrong")
    if isinstance(posting.body, Exception):
        raise posting.body
    return posting.body


def door_of(capacity_bytes: int = 1 << 20) -> Door:
    return Door(decode, 5, capacity_bytes, clock=lambda: 17.0)


def test_postings_come_in_order_and_a_wrong_one_hinders_no_other() -> None:
    """Each has an outcome of its own; the accepted ones are numbered without gaps."""
    door = door_of()
    assert door.leave([Posting([1], "a"), Posting("wrong"), Posting([2])]) == [1, Wrong("line 3: it is wrong"), 2]
    door.begin_at(0)
    assert door.take(0) == [Post([1], "a", 17.0, "a"), Post([2], None, 17.0, 5)]
    assert door.leave([Posting([3])]) == [3]


@pytest.mark.parametrize("error", [RecursionError("too deep"), OverflowError("too large"), AssertionError("negative")])
def test_any_error_of_decoding_is_of_its_posting(error: Exception) -> None:
    """It may come from a user's class, and the others of the call are of other clients."""
    door = door_of()
    first, wrong, last = door.leave([Posting([1]), Posting(error), Posting([2])])
    assert (first, last) == (1, 2)
    assert wrong == Wrong(f"{type(error).__name__}: {error}")


def test_what_finds_no_room_overtakes_nothing() -> None:
    """A small posting behind one that was refused is refused, too, so that a caller's order stays."""
    door = door_of(1000)
    assert door.leave([Posting([bytes(900)]), Posting([bytes(900)]), Posting([b""])]) == [1, Full(), Full()]
    assert len(door.take(0)) == 1
    assert door.leave([Posting([bytes(9000)])]) == [2], "a posting larger than the door comes in alone"
    assert door.leave([Posting([b""])]) == [Full()]


def test_bytes_that_find_no_room_are_not_decoded() -> None:
    """A client tries again until there is room, and decoding takes the time of the worker."""
    tried: list[Posting] = []

    def decode(posting: Posting) -> Any:
        tried.append(posting)
        return [posting.body]

    door = Door(decode, 5, 1200)
    small, large = Posting(b"1", form="json"), Posting(bytes(900), form="json")
    assert door.leave([large]) == [1]
    assert door.leave([small, large, small]) == [2, Full(), Full()]
    assert tried == [large, small]
    door.take(0)
    assert door.leave([Posting(bytes(9000), form="json")]) == [3]
    door.close()
    assert door.leave([small]) == [Full()]
    assert len(tried) == 3


def test_a_row_counts_as_a_byte_at_least() -> None:
    """Also a row of nulls, which is nothing in memory until a record is made of it."""
    door = door_of(1000)
    rows = pa.table({"n": pa.nulls(900)})
    assert door.leave([Posting(rows), Posting(rows)]) == [1, Full()]


def test_saved_are_those_before_a_position_of_the_reader() -> None:
    """Positions count in all runs, numbers at the door in this one; news from before the reader began says nothing."""
    door = door_of()
    door.leave([Posting([1]), Posting([2])])
    door.note_saved(40)
    assert door.saved == 0
    door.begin_at(40)
    door.take(0)
    door.note_saved(41)
    assert (door.saved, door.position) == (1, 42)
    door.note_saved(40)
    assert door.saved == 1, "it never goes back"


def test_a_closed_door_takes_nothing_and_wakes_its_reader() -> None:
    """The job has ended here: nothing is accepted that no run would read."""
    door = door_of()
    taken: list[list[Post]] = []
    reader = threading.Thread(target=lambda: taken.append(door.take(30)))
    reader.start()
    door.close()
    reader.join(10)
    assert taken == [[]]
    assert door.leave([Posting([1])]) == [Full()]


@pytest.mark.parametrize("whole", [Posting(pa.table({"n": range(1000)}), "k"), Posting(b"1", None, "json")])
def test_postings_and_posts_travel(whole: Posting) -> None:
    """They are pickled, a slice of a table without what is around it."""
    assert pickle.loads(pickle.dumps(whole)) == whole
    if whole.form == "batch":
        post = Post(whole.body.slice(3, 2), "k", 1.0, "k")
        packed = pickle.dumps(post)
        assert pickle.loads(packed) == post
        assert len(packed) < 2000
