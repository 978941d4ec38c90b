"""The file of a worker's part: what was written is read again, and what is no such file is a clear error."""

import pickle
import threading
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.token_bench import TokenBench
from tidewheel.runtime.messages.envelope import InputCommand
from tidewheel.runtime.messages.unread import Unread
from tidewheel.runtime.state import keyed_state
from tidewheel.runtime.state.keyed_state import KeyedState, entries_of
from tidewheel.runtime.state.operator_state import OperatorCut, OperatorState
from tidewheel.runtime.state.part_file import read_worker, write_part
from tidewheel.runtime.state.saved_worker import SavedOnWorker, SavedWorker
from tidewheel.runtime.state.worker_part import MailboxPart, OperatorPart, UndoneCommand, WorkerPart


def new_list() -> list[Any]:
    return []


def written(part: WorkerPart) -> bytes:
    return b"".join(write_part(part))


def part_of(number: int = 1, **operators: OperatorPart) -> WorkerPart:
    return WorkerPart(number, 3, 4, operators)


def entries(saved: SavedWorker, operator: str, name: str) -> dict[Any, Any]:
    return entries_of(saved.operators[operator].keyed[name], pickle.loads)


def test_all_that_a_worker_has_is_there_again() -> None:
    """States, keys, tokens of notificators, unread messages with their labels, and what waits in a mailbox."""
    bench = TokenBench()
    kept = OperatorState("count", None, is_tracked=True, make_token=bench.make)
    kept.state("total", new_list).append(1)
    kept.state("s", dict)
    kept.keyed("counts").update({"a": 1, None: [2], (1, "b"): 3.5})
    notificator = kept.add(tw.types.Notificator())
    notificator.notify_at(bench.token(2))
    unread = [[Unread(1, ["a"], None), Unread((1, 2), ["b"], (0, "key"))], [], [Unread(3, [None], None)]]
    mailbox = MailboxPart({0: 5, 7: 6}, [UndoneCommand(-1, InputCommand("count", "send", None, ["x"], 9, 7))])
    saved = read_worker([written(part_of(count=OperatorPart(kept.cut(), unread, mailbox), idle=empty()))])
    assert saved.worker == 3
    assert list(saved.operators) == ["count", "idle"]
    found = saved.operators["count"]
    assert pickle.loads(found.states["total"]) == [1]
    assert pickle.loads(found.states["s"]) == {}
    assert entries(saved, "count", "counts") == {"a": 1, None: [2], (1, "b"): 3.5}
    assert len(found.times) == 1
    assert found.unread == {0: unread[0], 2: unread[2]}
    assert found.mailbox == mailbox
    assert saved.operators["idle"] == SavedOnWorker()


def empty() -> OperatorPart:
    return OperatorPart(OperatorCut(), [[]])


def test_batches_of_all_kinds_are_there_again() -> None:
    """A slice of Arrow takes only its rows along."""
    table = pa.table({"number": list(range(100_000))})
    batches = [["a"], table.slice(10, 5), table.to_batches()[0].slice(3, 1), np.arange(5)]
    data = written(part_of(read=OperatorPart(OperatorCut(), [[Unread(0, batch, None) for batch in batches]])))
    assert len(data) < 10_000
    found = [unread.batch for unread in read_worker([data]).operators["read"].unread[0]]
    assert found[0] == ["a"]
    assert found[1].equals(batches[1])
    assert found[2].equals(batches[2])
    assert list(found[3]) == list(range(5))


def test_many_keys_are_written_in_pieces() -> None:
    """Between two of them, other threads run; no piece is large."""
    state = KeyedState({key: key for key in range(10_500)})
    pieces = list(write_part(part_of(count=OperatorPart(OperatorCut(keyed={"counts": state.cut()}), []))))
    assert len(pieces) == 11 + 2
    assert max(map(len, pieces)) < 10_000
    assert entries(read_worker([b"".join(pieces)]), "count", "counts") == state


@given(st.integers(0, 2**32))
def test_what_is_kept_by_key_is_in_several_files(seed: int) -> None:
    """The files from that on which began the last sweep that has ended; all else is in the newest."""
    random = Random(seed)
    state: KeyedState[int, Any] = KeyedState({key: [key] for key in range(30)})
    files: list[bytes] = []
    begun = needed = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed_state, "_LEAST_SWEPT", 3)
        for number in range(20):
            for _ in range(random.randrange(4)):
                state[random.randrange(40)] = random.choice([number, [number]])
                state.pop(random.randrange(40), None)
            cut = state.cut()
            cuts = OperatorCut({"number": pickle.dumps(number)}, {"counts": cut})
            files.append(written(part_of(number, count=OperatorPart(cuts, [[Unread(number, [number], None)]]))))
            begun = number if cut.begins else begun
            needed = begun if cut.ends else needed
            saved = read_worker(files[needed:])
            assert entries(saved, "count", "counts") == state
            assert pickle.loads(saved.operators["count"].states["number"]) == number
            assert saved.operators["count"].unread == {0: [Unread(number, [number], None)]}


def test_a_state_that_is_gone_from_the_newest_file_is_gone() -> None:
    """An operator that a newer program has not."""
    state = KeyedState({1: 1})
    first = part_of(count=OperatorPart(OperatorCut(keyed={"counts": state.cut()}), []), other=empty())
    saved = read_worker([written(first), written(part_of(2, other=empty()))])
    assert list(saved.operators) == ["other"]


@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"12345678", b"no part of a snapshot at all", bytes(100), b"\xff" * 100, pickle.dumps({"a": 1})],
)
def test_what_is_no_part_is_a_clear_error(data: bytes) -> None:
    """Whatever it is."""
    with raises(tw.errors.SnapshotError):
        read_worker([data])


def test_a_file_that_is_cut_short_is_a_clear_error() -> None:
    """At the front, at the end or in the middle."""
    kept = OperatorState("count", None, is_tracked=True, make_token=TokenBench().make)
    kept.state("total", new_list).extend(range(1000))
    kept.keyed("counts").update((key, [key]) for key in range(100))
    data = written(part_of(count=OperatorPart(kept.cut(), [[Unread(1, ["a"], None)]])))
    assert read_worker([data]).operators
    for broken in broken_files(data):
        with pytest.raises(tw.errors.SnapshotError, match="a part of a snapshot"):
            read_worker([broken])


def broken_files(data: bytes) -> Sequence[bytes]:
    ends = [data[:size] for size in range(0, len(data), 97)] + [data[:-1]]
    return [*ends, data[1:], data[50:], data[:100] + data[150:], data[:100] + bytes(7) + data[100:]]


def test_a_record_that_cannot_be_read_is_named() -> None:
    """By its operator: the class of a record may be gone from the program."""
    data = written(part_of(count=OperatorPart(OperatorCut(), [[Unread(1, [Gone()], None)]])))
    with pytest.raises(tw.errors.SnapshotError) as error:
        read_worker([data])
    assert str(error.value) == (
        "operator 'count': its messages cannot be read from the snapshot: ModuleNotFoundError: No module named "
        "'nowhere'. Let the program have what was saved, or use another folder"
    )


class Gone:
    """A record whose class is gone when it is read."""

    def __reduce__(self) -> Any:
        return _import, ("nowhere",)


def _import(name: str) -> Any:
    return __import__(name)


def test_a_key_or_record_that_cannot_be_pickled_is_an_error_that_names_the_operator() -> None:
    """It is found on the thread that writes, which knows neither the program nor what to do."""
    keyed = OperatorCut(keyed={"counts": KeyedState({threading.Lock(): 1}).cut()})
    unread = [[Unread(0, [threading.Lock()], None)]]
    for part in (OperatorPart(keyed, []), OperatorPart(OperatorCut(), unread)):
        with raises(tw.errors.SnapshotError):
            written(part_of(count=part))
