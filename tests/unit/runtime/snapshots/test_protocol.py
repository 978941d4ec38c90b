"""The protocol of a folder's log, with several owners that crash, are stopped and go on between any two calls."""

from collections.abc import Collection, Generator, Iterable
from functools import cached_property
from typing import Any

import pytest

from tests.kit.messages import raises
from tests.kit.seeds import seed_of
from tests.kit.snapshots.simulated_owners import PROCESS, Folder, Simulation
from tidewheel.runtime.messages.written_part import Blob
from tidewheel.runtime.snapshots import protocol
from tidewheel.runtime.snapshots.entries import Manifest, Owner, encode
from tidewheel.runtime.snapshots.errors import FencedError, SnapshotError
from tidewheel.runtime.snapshots.log import Log
from tidewheel.runtime.snapshots.names import blob_name, blob_writing
from tidewheel.storage.folder_calls import PutNew

RUNS = 300


def _simulate(runs: int) -> None:
    """Run under random seeds; an error says which one failed."""
    first = seed_of("TIDEWHEEL_SNAPSHOTS_SEED")
    for seed in range(first, first + runs):
        try:
            Simulation(seed).run()
        except (AssertionError, SnapshotError) as error:
            raise AssertionError(f"Simulation(seed={seed}).run() fails: {error}") from error


def test_owners_that_crash_or_are_stopped_lose_nothing() -> None:
    """One owner can commit at a time, no snapshot that should be kept is lost, and all its blobs are there."""
    _simulate(RUNS)


def _all_but_the_last(log: Log) -> list[int]:
    return [number for number in log.entries if number < min(log.snapshots, default=0)]


def _everything_unneeded(log: Log, names: Iterable[str], owner: Owner) -> list[str]:
    return [name for name in names if blob_writing(name) and name not in log.needed_blobs()]


def _dead_and_living(log: Log) -> list[int]:
    return [number for number, entry in log.entries.items() if isinstance(entry, Manifest)][:-1]


def _dead_between(log: Log) -> list[int]:
    return [number for number in log.entries if number < max(log.snapshots, default=0) and number not in log.snapshots]


def _one_fewer(log: Log, keep: int, damaged: Collection[int]) -> tuple[int, ...]:
    return tuple(log.snapshots)[-keep + 2 :] if keep > 2 else ()


def _needed_by_the_newest(log: Log) -> dict[str, Blob]:
    newest = log.snapshots[max(log.snapshots)].blobs if log.snapshots else ()
    return {blob.name: blob for blob in newest}


def _every_snapshot(log: Log) -> dict[int, Manifest]:
    return {number: entry for number, entry in sorted(log.entries.items()) if isinstance(entry, Manifest)}


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("old_entries", _all_but_the_last),
        ("unneeded_blobs", _everything_unneeded),
        ("old_entries", _dead_and_living),
        ("old_entries", _dead_between),
        ("kept_beside_a_new_one", _one_fewer),
        ("needed_blobs", _needed_by_the_newest),
        ("snapshots", property(_every_snapshot)),
    ],
    ids=[
        "the last owner goes",
        "blobs under way go",
        "living go",
        "entries between living ones go",
        "too few stay",
        "shared blobs go",
        "dead ones live",
    ],
)
def test_the_simulation_sees_wrong_rules(name: str, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rule of the log is needed: without it a run fails."""
    monkeypatch.setattr(Log, name, fault)
    with pytest.raises(AssertionError, match="seed="):
        _simulate(RUNS)


def test_the_simulation_sees_owners_that_do_not_look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A zombie whose number has become free again must not believe that it has committed."""
    monkeypatch.setattr(protocol, "check_owner", lambda log, owner: None)
    with pytest.raises(AssertionError, match="seed="):
        _simulate(RUNS)


def _owner(incarnation: int, identity: str) -> Owner:
    return Owner(f"job-{identity}", PROCESS, "2026-01-01T00:00:00+00:00", incarnation, identity)


def _run(folder: Folder, calls: Generator[Any, Any, Any]) -> Any:
    reply = None
    while True:
        try:
            call = calls.send(reply)
        except StopIteration as end:
            return end.value
        reply = folder.perform(call)


def _snapshot(owner: Owner, number: int, log: Log) -> Manifest:
    kept = log.kept_beside_a_new_one(2, ())
    return Manifest(number, owner.incarnation, "now", (), {}, kept, owner.identity)


def test_a_former_owner_collides_and_learns_of_the_new_one() -> None:
    """The error names both, and what to do."""
    folder = Folder(keep=2)
    first, second = _owner(1, "a"), _owner(2, "b")
    log = _run(folder, protocol.claim(Log(), first))
    assert _run(folder, protocol.claim(log, second)) is not None
    with raises(FencedError):
        _run(folder, protocol.append(log, first, lambda now: _snapshot(first, 1, now)))
    assert folder.log().snapshots == {}


def test_one_of_two_claims_at_the_same_moment_wins() -> None:
    """Both have read the same log; the second to put learns that it is not the owner."""
    folder = Folder(keep=2)
    first, second = protocol.claim(Log(), _owner(1, "a")), protocol.claim(Log(), _owner(1, "b"))
    calls = [next(first), next(second)]
    replies = [folder.perform(call) for call in calls]
    assert replies == [True, False]
    results = []
    for claim, reply in zip((first, second), replies, strict=True):
        call = claim.send(reply)
        results.append(_run(folder, _rest(claim, call)))
    assert results[0] is not None
    assert results[0].owner == _owner(1, "a")
    assert results[1] is None


def _rest(calls: Generator[Any, Any, Any], call: Any) -> Generator[Any, Any, Any]:
    while True:
        reply = yield call
        try:
            call = calls.send(reply)
        except StopIteration as end:
            return end.value


def test_a_commit_whose_answer_is_lost_is_found_by_the_next() -> None:
    """The next snapshot comes behind it, and counts it among those that it keeps."""
    folder = Folder(keep=2)
    owner = _owner(1, "a")
    log = _run(folder, protocol.claim(Log(), owner))
    folder.perform(PutNew("log/0000000002.json", encode(_snapshot(owner, 1, log))))
    log = _run(folder, protocol.append(log, owner, lambda now: None if 3 in now.entries else _snapshot(owner, 2, now)))
    assert [manifest.number for manifest in log.snapshots.values()] == [1, 2]


def test_a_log_that_is_gone_is_no_success() -> None:
    """The folder was removed under its owner: the error says so."""
    folder = Folder(keep=2)
    owner = _owner(1, "a")
    log = _run(folder, protocol.claim(Log(), owner))
    folder.objects.clear()
    with raises(FencedError):
        _run(folder, protocol.append(log, owner, lambda now: _snapshot(owner, 1, now)))


def test_a_snapshot_that_needs_a_blob_of_a_dead_one_is_refused() -> None:
    """That blob may be removed at any time."""
    owner = _owner(2, "a")
    blob = Blob(blob_name(1, 3, "w"), 1, 0)
    with raises(SnapshotError):
        protocol.check_blobs(9, [blob], Log(), Log(), owner)
    under_way = Blob(blob_name(2, 8, "w"), 1, 0)
    protocol.check_blobs(9, [under_way], Log(), Log(), owner)


def test_numbers_and_incarnations_only_grow() -> None:
    """Properties are cached, since a log as it was read never changes."""
    assert isinstance(Log.__dict__["snapshots"], cached_property)
    log = Log({7: _owner(3, "a"), 9: _snapshot(_owner(3, "a"), 5, Log())})
    assert (log.next_number, log.incarnation, log.next_snapshot) == (10, 3, 6)
