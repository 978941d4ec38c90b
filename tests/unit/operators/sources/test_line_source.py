"""Sources over lines of text files."""

import bz2
import gzip
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import operator_settings
from tests.kit.operators.sources import bag, bags_of, flow_of, read


def write(folder: Path, **texts: str) -> Path:
    """Write files and return their folder."""
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


@operator_settings()
@given(
    st.lists(st.lists(st.text("ab ", max_size=3), max_size=5), min_size=1, max_size=4),
    st.integers(1, 4),
    st.none() | st.just("file") | st.integers(1, 2),
    st.integers(1, 3),
)
def test_each_line_comes_once_at_its_epoch(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[str]], batch_size: int, epoch_every: Any, workers: int
) -> None:
    """Whatever workers share the files: epochs depend on files and lines only."""
    folder = tmp_path_factory.mktemp("lines")
    expected: dict[int, Counter[str]] = {}
    for number, lines in enumerate(files):
        (folder / str(number)).write_text("".join(f"{line}\n" for line in lines))
        for place, line in enumerate(lines):
            epoch = {None: 0, "file": number}.get(epoch_every)
            epoch = place // batch_size // epoch_every if epoch is None else epoch
            expected.setdefault(epoch, Counter())[line] += 1
    source = tw.LineSource(folder, batch_size=batch_size, epoch_every=epoch_every)
    assert bags_of(source, workers) == expected


def test_line_ends_are_cut_off(tmp_path: Path) -> None:
    """Those of Windows too; other white space is the line's own, and the last line needs no end."""
    (tmp_path / "text").write_bytes("one \r\n\ttwo\n\nlaßt".encode())
    assert [result.batch for result in read(tw.LineSource(tmp_path / "text"))] == [["one ", "\ttwo", "", "laßt"]]


def test_compressed_files_are_read(tmp_path: Path) -> None:
    """By what their names end in."""
    for suffix, compress in ((".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)):
        (tmp_path / f"text{suffix}").write_bytes(compress(f"from {suffix}\n".encode()))
    assert bags_of(tw.LineSource(tmp_path), 2) == {0: bag("from .gz", "from .bz2", "from .xz")}


def test_other_encodings_can_be_read(tmp_path: Path) -> None:
    """What is no text fails the job, with the file's name, unless it is said otherwise."""
    (tmp_path / "text").write_bytes("naß\n".encode("latin-1"))
    with raises(tw.JobError) as caught:
        read(tw.LineSource(tmp_path))
    assert f"This is file {tmp_path / 'text'}, in batch 0" in caught.value.traceback_text
    assert bags_of(tw.LineSource(tmp_path, encoding="latin-1")) == {0: bag("naß")}
    assert bags_of(tw.LineSource(tmp_path, errors="ignore")) == {0: bag("na")}


def test_a_damaged_archive_fails_the_job(tmp_path: Path) -> None:
    """It is not taken for one that ends there."""
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"one\n" * 10_000)[:-20])
    with raises(tw.JobError) as caught:
        read(tw.LineSource(tmp_path, batch_size=100))
    assert "text.gz" in caught.value.traceback_text


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("text.gz", b"plain", "BadGzipFile"),
        ("text.gz", gzip.compress(b"", mtime=0)[:10] + b"\xff" * 90, "error: Error -3"),
        ("text.bz2", b"plain", "OSError: Invalid data stream"),
        ("text.xz", b"plain", "LZMAError"),
    ],
    ids=["no gzip", "damaged gzip", "no bzip2", "no xz"],
)
def test_what_is_no_archive_fails_the_job(tmp_path: Path, name: str, content: bytes, error: str) -> None:
    """Each way to compress has errors of its own; all say which file it is."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(tw.JobError, match=error) as caught:
        read(tw.LineSource(tmp_path))
    assert f"This is file {tmp_path / name}, in batch 0" in caught.value.traceback_text


def test_files_are_found_by_path_pattern_and_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once, in the order of their names; what is hidden in a folder is unfinished."""
    write(tmp_path, a="a\n", b="b\n")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    write(tmp_path / "deep" / "er", c="c\n")
    for hidden in (".tmp", "_temporary"):
        (tmp_path / hidden).mkdir()
        write(tmp_path / hidden, d="d\n")
        (tmp_path / f"{hidden}.txt").write_text("e\n")
    monkeypatch.chdir(tmp_path)
    everything = [tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "deep" / "er" / "c.txt"]

    def found(paths: Any) -> list[Path]:
        return list(tw.LineSource(paths).files)

    assert found(tmp_path) == found(".") == found([tmp_path, "a.txt", "?.txt"]) == everything
    assert found("?.txt") == found(str(tmp_path / "[ab].txt")) == everything[:2]
    assert found("**/[abc].txt") == everything
    assert found(["deep", Path("b.txt")]) == everything[1:]


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ("nothing.txt", r"LineSource: there are no files at 'nothing\.txt' \(looked in /"),
        ("*.nothing", r"no files at '\*\.nothing'"),
        ([], "LineSource: there is no path to read from"),
        ([3], "LineSource: a path is a text or a pathlib.Path, not 3"),
    ],
)
def test_what_is_not_there_is_refused_at_once(paths: Any, message: str) -> None:
    """When the source is made, and not on the workers."""
    with pytest.raises(tw.GraphError, match=message):
        tw.LineSource(paths)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "LineSource: batch_size is a whole number, 1 or more, not 0"),
        ({"epoch_every": 0}, "LineSource: epoch_every, .* is a whole number, 1 or more, not 0"),
        (
            {"epoch_every": "day"},
            "LineSource: epoch_every, unless .*, is a whole number, 1 or more, not 'day'",
        ),
    ],
)
def test_wrong_options_are_refused_at_once(tmp_path: Path, options: Any, message: str) -> None:
    """When the source is made."""
    with pytest.raises(tw.GraphError, match=message):
        tw.LineSource(write(tmp_path, a=""), **options)


def test_files_are_closed_when_the_job_ends(tmp_path: Path) -> None:
    """Though it has not read them to their ends; and one at a time is open, unless each has epochs of its own."""
    write(tmp_path, a="1\n" * 1000, b="2\n" * 1000)

    def open_files() -> int:
        return sum(file.path.startswith(str(tmp_path)) for file in psutil.Process().open_files())

    for epoch_every, most in ((None, 1), ("file", 1), (1, 2)):
        source: Any = tw.LineSource(tmp_path, batch_size=10, epoch_every=epoch_every)  # type: ignore[arg-type]
        with tw.run(flow_of(source), engine="local") as job:
            assert open_files() == 0
            job.run_round()  # type: ignore[attr-defined]
            assert open_files() == most
        assert open_files() == 0
