"""A folder in an object store: what its errors say, and how long it waits."""

import time
from collections.abc import Callable

import pytest

from tests.kit.messages import raises
from tests.kit.stores.failing_store import failing_store
from tests.kit.stores.fake_s3 import LISTED_AT_ONCE
from tests.kit.stores.s3_fixtures import use_endpoint
from tidewheel.runtime.snapshots.errors import SnapshotError
from tidewheel.storage import object_store
from tidewheel.storage.object_store import RemoteFolder

CALLS: dict[str, Callable[[RemoteFolder], object]] = {
    "write": lambda folder: folder.write("parts/a", [memoryview(b"x")]),
    "write large": lambda folder: folder.write("parts/a", [memoryview(bytes(20_000_000))]),
    "put_new": lambda folder: folder.put_new("log/1", b"x"),
    "read": lambda folder: folder.read("parts/a"),
    "read large": lambda folder: folder.read("parts/a", 20_000_000),
    "read part": lambda folder: folder.read_part("parts/a", 0, 10),
    "sizes": lambda folder: folder.sizes("parts/"),
    "remove": lambda folder: folder.remove(["parts/a"]),
}


@pytest.fixture(params=list(CALLS.values()), ids=list(CALLS))
def call(request: pytest.FixtureRequest) -> Callable[[RemoteFolder], object]:
    """Each call of a folder."""
    found: Callable[[RemoteFolder], object] = request.param
    return found


@pytest.mark.usefixtures("s3_environment")
def test_a_bucket_that_is_gone_is_named(call: Callable[[RemoteFolder], object]) -> None:
    """It is not taken for an empty folder or a missing object."""
    with raises(SnapshotError):
        call(RemoteFolder("s3://gone/job", 5, SnapshotError))


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (403, "AccessDenied", r"the store refuses access \(403 Forbidden.*Check the credentials in the environment"),
        (401, "Unauthorized", r"the store refuses access \(401 Unauthorized.*Check the credentials"),
        (403, "QuotaExceeded", r"the bucket is full \(403 .*QuotaExceeded\)\. Raise its quota, remove what"),
        (507, "XMinioStorageFull", r"the bucket is full \(507 .*\)\. Raise its quota"),
        (
            503,
            "SlowDown",
            r"the store did not answer as it should within about 0.4 s \(503 .*SlowDown\).*Check the network",
        ),
    ],
)
def test_a_failing_store_is_a_clear_error(
    status: int, code: str, message: str, call: Callable[[RemoteFolder], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the URL, the reason and the remedy, and no secret."""
    with failing_store(status, code) as store:
        use_endpoint(store.url, monkeypatch)
        with pytest.raises(SnapshotError, match=f"s3://bucket/job/.* is not .*: {message}") as raised:
            call(RemoteFolder("s3://bucket/job", 0.4, SnapshotError))
        assert "top-secret" not in str(raised.value)


def test_a_store_that_does_not_answer_is_given_up(
    call: Callable[[RemoteFolder], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the time that the caller has chosen, not after minutes."""
    with failing_store(0) as store:
        use_endpoint(store.url, monkeypatch)
        started = time.monotonic()
        with pytest.raises(SnapshotError, match=r"did not answer as it should within about 0.4 s .* try again"):
            call(RemoteFolder("s3://bucket/job", 0.4, SnapshotError))
        assert time.monotonic() - started < 5
        assert store.requests


@pytest.mark.parametrize("name", ["write", "put_new"])
def test_a_store_that_fails_for_a_while_is_asked_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy store answers so, and the snapshot need not fail."""
    with failing_store(503, "SlowDown", times=2) as store:
        use_endpoint(store.url, monkeypatch)
        CALLS[name](RemoteFolder("s3://bucket/job", 30, SnapshotError))
        assert store.requests == 3


def test_a_store_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens at this address."""
    use_endpoint("http://127.0.0.1:1", monkeypatch)
    with pytest.raises(SnapshotError, match="did not answer as it should"):
        RemoteFolder("s3://bucket/job", 0.4, SnapshotError).sizes("log/")


def test_http_needs_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the setting."""
    use_endpoint("http://127.0.0.1:1", monkeypatch)
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(SnapshotError, match="AWS_ALLOW_HTTP=true"):
        RemoteFolder("s3://bucket/job", 0.4, SnapshotError).read("log/1")


def test_an_object_is_put_once(bucket: str) -> None:
    """The second one is refused, and the first one stays."""
    folder = RemoteFolder(f"{bucket}/job", 5, SnapshotError)
    assert folder.put_new("log/1", b"first")
    assert not folder.put_new("log/1", b"second")
    assert folder.read("log/1") == b"first"
    assert RemoteFolder(f"{bucket}/other", 5, SnapshotError).read("log/1") is None


def test_a_part_of_an_object_is_read(bucket: str) -> None:
    """Up to its end; of an object that is not there, nothing."""
    folder = RemoteFolder(bucket, 5, SnapshotError)
    folder.write("parts/a", [memoryview(b"0123456789")])
    assert folder.read_part("parts/a", 2, 3) == b"234"
    assert folder.read_part("parts/a", 8, 100) == b"89"
    assert folder.read_part("parts/b", 0, 100) is None


def test_a_large_object_that_is_cut_has_another_size(bucket: str) -> None:
    """Also one that is empty, of which no piece can be read."""
    folder = RemoteFolder(bucket, 5, SnapshotError)
    for size in (0, 19_000_000):
        folder.write("parts/a", [memoryview(bytes(size))])
        assert len(folder.read("parts/a", 20_000_000) or b"") < 20_000_000


def test_many_objects_are_listed_and_removed(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one request lists or removes: of a thousand objects each, and of a hundred here."""
    monkeypatch.setattr(object_store, "_MOST_REMOVED", LISTED_AT_ONCE)
    folder = RemoteFolder(bucket, 5, SnapshotError)
    names = [f"parts/{number}" for number in range(LISTED_AT_ONCE + 10)]
    for name in names:
        folder.write(name, [memoryview(b"xy")])
    assert folder.sizes("parts/") == dict.fromkeys(names, 2)
    folder.remove([*names, "parts/missing"])
    assert folder.sizes("parts/") == {}


def test_a_duration_is_no_status(s3_environment: str) -> None:
    """A store that was silent for 507 ms is not said to be full."""
    silent = OSError(
        "Error performing GET http://host/a in 507.800688ms, after 1 retries - HTTP error: sending request"
    )
    assert "the store did not answer" in RemoteFolder("s3://bucket/job", 0.4, SnapshotError)._explained(silent)
