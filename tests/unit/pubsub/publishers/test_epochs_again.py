"""Complete epochs that come again are compared with a real log: what is the same, what differs, and what is unknown."""

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.kit.exactly_once.partitions import DEADLINE_S, DOMAIN, Partition, opened
from tests.waiting import eventually
from tidewheel.pubsub.messages.encoded_message import encode, encode_batch
from tidewheel.pubsub.messages.wire import Generation, WorkerPosition
from tidewheel.pubsub.publishers import epochs_again
from tidewheel.pubsub.publishers.epochs_again import Difference, EpochsAgain, differing_epochs, first_difference
from tidewheel.pubsub.publishers.partition_log import ReplayedLog

EPOCHS = 20


def send(partition: Partition, epoch: int, *batches: list[Any], number: int = 0) -> None:
    partition.core.feed([encode(encode_batch(epoch, batch), number + at) for at, batch in enumerate(batches)])


def first_life(partition: Partition) -> None:
    """Publish some epochs, of 100 records each."""
    for epoch in range(EPOCHS):
        send(partition, epoch, *([f"{epoch} {at} {n}" for n in range(50)] for at in range(2)))
        partition.advance(epoch, epoch + 1)
        partition.settle()


def begin_again(partition: Partition, number: int = 1, **position: Any) -> EpochsAgain | None:
    generation = Generation(number, (EPOCHS,))
    partition.core.begin(WorkerPosition(**{"lower": [0], "sent": {}, "generation": generation, **position}))
    return partition.core.again


def second_life(partition: Partition, again: EpochsAgain | None, changes: dict[int, list[str]]) -> EpochsAgain:
    """Send again what was published, in one batch and in another order, but for what is changed."""
    assert again is not None
    for epoch in range(EPOCHS):
        assert not again.have_come
        records = [f"{epoch} {at} {n}" for n in range(50) for at in range(2)]
        send(partition, epoch, [*records[1:], *changes.get(epoch, records[:1])])
        partition.advance(epoch, epoch + 1)
    assert again.have_come
    return again


def logged(partition: Partition, again: EpochsAgain, *epochs: int) -> Any:
    return again.logged(ReplayedLog(partition.core.log), epochs or range(EPOCHS))


@pytest.mark.parametrize("segment_bytes", [1 << 20, 2000])
def test_what_is_the_same_has_the_same_sums(tmp_path: Path, segment_bytes: int) -> None:
    """Also where the log has many segments; and a second time, as what the first return made void does not count."""
    with opened(tmp_path, segment_bytes=segment_bytes) as partition:
        first_life(partition)
        send(partition, EPOCHS, ["void"])
        partition.settle()
        for number in (1, 2):
            again = second_life(partition, begin_again(partition, number), {})
            partition.settle()
            sums = logged(partition, again)
            assert None not in sums.values()
            assert (sums, again.came()) == (again.came(), sums), number


def test_other_records_are_found_and_named(tmp_path: Path) -> None:
    """A record more, another, and one less; the first epoch comes first."""
    changes = {7: [], 5: ["other"], 9: ["9 0 0", "more"]}
    with opened(tmp_path) as partition:
        first_life(partition)
        again = second_life(partition, begin_again(partition), changes)
        assert differing_epochs(DOMAIN, [again.came()], [logged(partition, again)]) == [5, 7, 9]
        log = ReplayedLog(partition.core.log)
        found = {epoch: list(again.differences(log, epoch).values()) for epoch in changes}
        assert found[7] == [Difference(1, "'7 0 0'")]
        assert sorted(found[5]) == [Difference(-1, "'other'"), Difference(1, "'5 0 0'")]
        assert found[9] == [Difference(-1, "'more'")]


def test_an_epoch_of_which_something_is_missing_is_not_compared(tmp_path: Path) -> None:
    """A part was sent before the snapshot, or all of it, or the log has forgotten it."""
    with opened(tmp_path, segment_bytes=2000) as partition:
        first_life(partition)
        again = begin_again(partition, lower=[3], sent={4: 1})
        assert again is not None
        assert logged(partition, again, 2, 4) == {2: None, 4: None}
        assert logged(partition, again, 5)[5] is not None
        partition.core.expire(float("inf"))
        partition.core.look()
        assert partition.core.trim() == 0, "the log keeps what is to be compared"
        again = begin_again(partition, 2)
        assert again is not None
        assert partition.core.log.trim(partition.core.log.segments()[1].tick_before + 1)
        sums = logged(partition, again)
        assert sums[0] is None
        assert sums[EPOCHS - 1] is not None


def test_nothing_is_compared_where_nothing_comes_again(tmp_path: Path) -> None:
    """In a first life, where the worker is behind all that is complete, and for a worker that only connects again."""
    with opened(tmp_path) as partition:
        partition.core.begin(WorkerPosition([0], {}))
        assert partition.core.again is None
        first_life(partition)
        assert begin_again(partition, lower=[EPOCHS]) is None
        assert begin_again(partition, 2) is not None
        assert begin_again(partition, 2) is None


def test_records_that_do_not_decode_are_unknown(tmp_path: Path) -> None:
    """This process may lack their class. Then nothing is said."""
    with opened(tmp_path) as partition:
        partition.send(0, b"no pickle")
        partition.advance(0, EPOCHS)
        partition.settle()
        again = begin_again(partition)
        assert again is not None
        partition.send(0, b"another")
        assert (again.came(), logged(partition, again, 0)) == ({0: None}, {0: None})
        assert (
            differing_epochs(DOMAIN, [again.came()], [{0: 5}]) == differing_epochs(DOMAIN, [{0: 5}], [{0: None}]) == []
        )


def test_only_some_of_what_comes_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an epoch that is not all kept, no record can be named."""
    monkeypatch.setattr(epochs_again, "KEPT_BYTES", 100)
    with opened(tmp_path) as partition:
        first_life(partition)
        again = second_life(partition, begin_again(partition), {0: [], 5: []})
        log = ReplayedLog(partition.core.log)
        assert (len(again.differences(log, 0)), again.differences(log, 5)) == (1, {})


def test_a_record_that_went_elsewhere_does_not_differ() -> None:
    """Partitions are added up; a record that is missing is named before one that is new."""
    one = {1: Difference(1, "moved"), 2: Difference(-1, "new")}
    other = {1: Difference(-1, "moved"), 3: Difference(2, "missing")}
    assert first_difference([one, other]) == (1, Difference(2, "missing"))
    assert first_difference([one, {1: Difference(-1, "moved")}]) == (0, Difference(-1, "new"))
    assert first_difference([{}, {}]) is None


def test_what_waits_for_its_digest_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker is held back meanwhile, and the loop of the publisher is not."""
    may_go_on = threading.Event()
    monkeypatch.setattr(epochs_again, "_ROOM_BYTES", 1000)
    monkeypatch.setattr(epochs_again, "digest_of", lambda _: may_go_on.wait(DEADLINE_S))
    with opened(tmp_path) as partition:
        first_life(partition)
        again = second_life(partition, begin_again(partition), {})
        assert not partition.core.has_room
        may_go_on.set()
        assert again.came() == dict.fromkeys(range(EPOCHS), 1)
        assert eventually(lambda: partition.core.has_room, DEADLINE_S)
