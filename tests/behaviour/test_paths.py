"""Every path that a user gives is looked at where it is given: no folder gets the name of a URL, or of None."""

from collections.abc import Callable
from pathlib import Path
from reprlib import repr as short
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.progress import TidewheelError
from tidewheel.spark_bridge.structured_streaming.feed import feed
from tidewheel.spark_bridge.structured_streaming.write_epochs import write_epochs


def numbers() -> tw.Stream[int]:
    return tw.Dataflow("paths").input("numbers")


LOCAL: dict[str, Callable[[Any], Any]] = {
    "capture_to": lambda place: numbers().capture_to(place),
    "ParquetSource of several": lambda place: tw.ParquetSource([place]),
    "ParquetSource": tw.ParquetSource,
    "ReplaySource": tw.ReplaySource,
    "write_epochs path": lambda place: write_epochs("topic", path=place, checkpoint="/x"),
    "write_epochs checkpoint": lambda place: write_epochs("topic", path="/x", checkpoint=place),
}
"""The calls with a path of a file system."""

ANY: dict[str, Callable[[Any], Any]] = {
    **LOCAL,
    "write_files": lambda place: numbers().write_files(place),
    "FileSource": lambda place: tw.FileSource(place, "text"),
    "Snapshots": tw.Snapshots,
    "publish": lambda place: numbers().publish("paths", log=tw.Log(place)),
}
"""These, and the calls with a path or a URL."""


@pytest.fixture(autouse=True)
def nothing_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The calls run in an empty folder, which is empty afterwards."""
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["s3://me:secret@bucket/out", "gs://b/*.txt", "hdfs://host/x", "FILE:///x"])
@pytest.mark.parametrize("form", [str, Path])
@pytest.mark.parametrize("call", LOCAL)
def test_a_url_is_refused(call: str, form: Callable[[str], Any], url: str) -> None:
    """As a text, and as a path, which has one slash less. The error shows the URL without its secret."""
    with raises(TidewheelError) as error:
        LOCAL[call](form(url))
    if form is str:
        assert "secret" not in str(error.value)


@pytest.mark.parametrize("place", [None, "", 3, b"folder", True, "a\0b", dict.fromkeys(range(9999))], ids=short)
@pytest.mark.parametrize("call", ANY)
def test_what_is_no_path_is_refused(call: str, place: Any) -> None:
    """By an error of tidewheel, which is short."""
    with pytest.raises(TidewheelError) as error:
        ANY[call](place)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("place", [None, "", 3, b"folder"])
def test_what_is_no_checkpoint_is_refused(place: Any) -> None:
    """Spark takes URLs there."""
    with pytest.raises(TidewheelError):
        feed(None, None, checkpoint=place)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a:b", "s3", "time: 10/x", "./s3:/x"])
def test_a_colon_in_a_name_makes_no_url(name: str, tmp_path: Path) -> None:
    """A folder of such a name can be used."""
    numbers().write_files(name)
