"""Folders that readers see whole or not at all."""

import shutil
from pathlib import Path

import pytest

from tidewheel.storage.whole_folders import WholeFolders


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def fill(folders: WholeFolders, name: str, *files: str) -> None:
    hidden = folders.begin(name)
    for file in files:
        (hidden / file).write_text(file)


@pytest.fixture
def folders(tmp_path: Path) -> WholeFolders:
    found = WholeFolders(tmp_path / "new" / "root", "epoch=")
    found.recover()
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "new" / "root"


def test_a_folder_is_hidden_until_it_is_whole(folders: WholeFolders, root: Path) -> None:
    """Files that are not its own are removed."""
    fill(folders, "epoch=7", "a", "b")
    assert names(root) == [".tmp-epoch=7"]
    assert folders.existing() == frozenset()
    folders.commit("epoch=7", ["a"])
    assert names(root) == ["epoch=7"]
    assert names(root / "epoch=7") == ["a"]


def test_files_that_are_missing_come_from_the_older_folder(folders: WholeFolders, root: Path) -> None:
    """A file that is nowhere is an error, and the older folder stays."""
    fill(folders, "epoch=7", "a")
    folders.commit("epoch=7", ["a"])
    fill(folders, "epoch=7", "b")
    folders.commit("epoch=7", ["a", "b"])
    assert names(root / "epoch=7") == ["a", "b"]
    fill(folders, "epoch=7", "c")
    with pytest.raises(FileNotFoundError):
        folders.commit("epoch=7", ["c", "d"])
    assert names(root / "epoch=7") == ["a", "b"]


@pytest.mark.parametrize("step", ["rename", "rmtree"])
def test_a_crash_at_any_step_loses_no_folder(
    folders: WholeFolders, root: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Readers find the older one or the new one, and the next writer cleans up."""
    fill(folders, "epoch=7", "a")
    folders.commit("epoch=7", ["a"])
    fill(folders, "epoch=7", "b")
    rename = Path.rename

    def crash(path: Path, to: Path) -> Path:
        if path.name.startswith(".tmp-"):
            raise InterruptedError
        return rename(path, to)

    with monkeypatch.context() as patch:
        patch.setattr(*((Path, "rename", crash) if step == "rename" else (shutil, "rmtree", _crash)))
        with pytest.raises(InterruptedError):
            folders.commit("epoch=7", ["b"])
    assert folders.existing() == {"epoch=7"}
    folders.recover()
    assert names(root) == ["epoch=7"]
    assert names(root / "epoch=7") == (["a"] if step == "rename" else ["b"])


def _crash(_: Path) -> None:
    raise InterruptedError


def test_what_has_other_names_is_not_touched(folders: WholeFolders, root: Path) -> None:
    """Neither hidden folders of others, nor files."""
    (root / ".tmp-other=1").mkdir()
    (root / ".tmp-epoch=file").touch()
    fill(folders, "epoch=8", "a")
    folders.recover(but_unfinished=True)
    assert names(root) == [".tmp-epoch=8", ".tmp-epoch=file", ".tmp-other=1"]
    folders.recover()
    assert names(root) == [".tmp-epoch=file", ".tmp-other=1"]


def test_names_of_one_writer_are_left_out(folders: WholeFolders) -> None:
    """By what is in the names of its files."""
    for name, file in (("epoch=1", "part-mine"), ("epoch=2", "part-other")):
        fill(folders, name, file)
        folders.commit(name, [file])
    assert folders.existing(but="-mine") == {"epoch=2"}


@pytest.mark.parametrize("is_late", [False, True])
def test_one_that_comes_back_meanwhile_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool) -> None:
    """One writer moves it back while another looks which there are."""
    (tmp_path / ".old-epoch=7").mkdir()
    look = WholeFolders._hidden

    def look_as_it_moves(folders: WholeFolders, prefix: str) -> list[Path]:
        before = look(folders, prefix)
        (tmp_path / ".old-epoch=7").rename(tmp_path / "epoch=7")
        return before if is_late else look(folders, prefix)

    monkeypatch.setattr(WholeFolders, "_hidden", look_as_it_moves)
    assert WholeFolders(tmp_path, "epoch=").existing() == {"epoch=7"}
