"""A claimed log: each number belongs to one writer, whatever the store answers."""

import random
from collections.abc import Sequence

import pytest

from tests.kit.seeds import seed_of
from tidewheel.storage.folder_calls import Call, Calls, Get, PutNew, Remove, Sizes, run
from tidewheel.storage.numbered_log import NumberedLog, Put

LOG = NumberedLog("log/", 4, ".json")


class Store:
    """Objects in memory; the first put may lose its answer, or be refused while it is on its way."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.overwrites = False

    def put_new(self, name: str, data: bytes) -> bool:
        if name in self.objects and not self.overwrites:
            return False
        self.objects[name] = data
        return True

    def read(self, name: str, size: int = 0) -> bytes | None:
        return self.objects.get(name)

    def sizes(self, prefix: str) -> dict[str, int]:
        return {name: len(data) for name, data in self.objects.items() if name.startswith(prefix)}

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            self.objects.pop(name, None)


def test_a_number_belongs_to_the_first_who_puts_it() -> None:
    """Another writer is told so. A writer whose answer was lost puts the same bytes, and finds that it has won."""
    store = Store()
    assert run(LOG.put(1, b"one"), store) is Put.OWN
    assert run(LOG.put(1, b"other"), store) is Put.TAKEN
    assert run(LOG.put(1, b"one"), store) is Put.OWN
    assert store.objects == {"log/0001.json": b"one"}


def test_a_put_on_its_way_is_not_taken_for_one_of_another_writer() -> None:
    """A store may refuse an object before it shows the one that it refuses it for."""
    calls = LOG.put(1, b"one")
    assert next(calls) == PutNew("log/0001.json", b"one")
    assert calls.send(False) == Get("log/0001.json", 3)
    with pytest.raises(StopIteration) as end:
        calls.send(None)
    assert end.value.value is Put.UNSEEN


def test_a_store_that_overwrites_is_found_out() -> None:
    """Without conditional writes two writers would have one number."""
    store = Store()
    run(LOG.put(1, b"one"), store)
    run(LOG.check_store(1, "s3://b/log", "two could win", OSError), store)
    store.overwrites = True
    with pytest.raises(OSError, match=r"s3://b/log is not used: .* two could win\. Use a store"):
        run(LOG.check_store(1, "s3://b/log", "two could win", OSError), store)


def test_an_object_that_a_later_writer_has_removed_is_not_put_again() -> None:
    """A writer that was suspended after its claim looks at the store late: other bytes would damage the log."""
    store = Store()
    run(LOG.put(2, b"later"), store)
    run(LOG.check_store(1, "s3://b/log", "two could win", OSError), store)
    assert store.objects == {"log/0002.json": b"later"}


@pytest.mark.parametrize("name", ["log/1.json", "log/0001.txt", "0001.json", "log/0001.json.7f.partial", "log/x1.json"])
def test_other_names_are_no_objects(name: str) -> None:
    """Half-written files neither, and they are known as such."""
    assert LOG.number(name) is None
    assert LOG.half_written(name) == (1 if name.endswith(".partial") else None)


def test_names_sort_as_numbers() -> None:
    """Beyond their digits they are still names of the log."""
    assert LOG.name(99_999) == "log/99999.json"
    assert LOG.number(LOG.name(99_999)) == 99_999
    assert [NumberedLog().name(number) for number in (9, 10)] == sorted(NumberedLog().name(n) for n in (10, 9))


def test_calls_are_carried_out_in_order() -> None:
    """Each gets the result of its own."""

    def calls() -> Calls[list[object]]:
        every: list[Call] = [PutNew("a", b"x"), PutNew("a", b"y"), Get("a"), Sizes(""), Remove(("a",)), Get("a")]
        found: list[object] = []
        for call in every:
            found += [(yield call)]
        return found

    assert run(calls(), Store()) == [True, False, b"x", {"a": 1}, None, None]


def test_writers_under_a_seed_agree_on_one_line() -> None:
    """Stopped between any two calls, with answers that are lost, each number has one owner that knows it, or none."""
    seed = seed_of("TIDEWHEEL_LOG_SEED")
    chosen = random.Random(seed)
    for _ in range(300):
        store, won = Store(), dict[int, str]()
        writers = dict.fromkeys("abc", 1)
        running: dict[str, Calls[Put]] = {}
        replies: dict[str, object] = {}
        for _ in range(60):
            name = chosen.choice("abc")
            number = writers[name]
            calls = running.setdefault(name, LOG.put(number, f"{name}{number}".encode()))
            try:
                call = calls.send(replies.pop(name, None))
            except StopIteration as end:
                del running[name]
                if end.value is Put.OWN:
                    assert won.setdefault(number, name) == name, f"seed {seed}: {number} has two owners"
                writers[name] += end.value is not Put.UNSEEN
                continue
            reply = store.put_new(call.name, call.data) if isinstance(call, PutNew) else store.read(call.name)  # type: ignore[union-attr]
            if chosen.random() < 0.3:
                del running[name]  # its answer is lost: the same bytes are put again
            else:
                replies[name] = reply
        for number, name in won.items():
            assert store.objects[LOG.name(number)] == f"{name}{number}".encode(), f"seed {seed}"
