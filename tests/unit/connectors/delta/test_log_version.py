"""What a version of a table has changed is read from its log, whoever wrote it."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from tidewheel.connectors.delta.log_version import AddedFile, LogVersion, read_version


def version_of(folder: Path, *actions: dict[str, Any]) -> LogVersion:
    (folder / "_delta_log").mkdir()
    text = "\n".join(map(json.dumps, actions)) + "\n"
    (folder / "_delta_log" / f"{7:020}.json").write_text(text)
    return read_version(SubTreeFileSystem(str(folder), LocalFileSystem()), 7)


def test_added_files_have_paths_and_values(tmp_path: Path) -> None:
    """Paths are escaped in the log."""
    found = version_of(
        tmp_path,
        {"commitInfo": {"operation": "WRITE"}},
        {"add": {"path": "day=a%20b/1.parquet", "partitionValues": {"day": "a b"}, "dataChange": True}},
        {"txn": {"appId": "other", "version": 3}},
    )
    assert found == LogVersion(
        "WRITE", (AddedFile("day=a b/1.parquet", {"day": "a b"}),), removes=False, hides=False, changes_table=False
    )


def test_a_compaction_changes_no_rows(tmp_path: Path) -> None:
    """Its files say so, one by one."""
    found = version_of(
        tmp_path,
        {"remove": {"path": "1.parquet", "dataChange": False}},
        {"add": {"path": "2.parquet", "dataChange": False}},
    )
    assert not found.changes_rows
    assert found.operation == "unknown"


@pytest.mark.parametrize("more", [{"dataChange": True}, {}], ids=["said", "not said"])
def test_a_removed_file_changes_rows(tmp_path: Path, more: dict[str, Any]) -> None:
    """Also if the log does not say."""
    assert version_of(tmp_path, {"remove": {"path": "1.parquet", **more}}).removes


def test_hidden_rows_and_other_columns_are_seen(tmp_path: Path) -> None:
    """A deletion vector of an added file, and new metadata."""
    vector = {"storageType": "u", "sizeInBytes": 40, "cardinality": 1}
    found = version_of(
        tmp_path, {"metaData": {"id": "x"}}, {"add": {"path": "1", "dataChange": True, "deletionVector": vector}}
    )
    assert found.hides
    assert found.changes_table
