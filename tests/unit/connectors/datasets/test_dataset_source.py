"""Datasets without the libraries of their extra."""

import sys
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.connectors.datasets import DatasetError, from_dataset, to_dataset
from tidewheel.host import extras


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Ray or Ray Data is touched, with the command that installs it."""
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "pandas" else name)
    monkeypatch.setitem(sys.modules, "ray", None)
    dataset: Any = object()
    with raises(DatasetError):
        from_dataset(tw.Dataflow("rows"), "rows", dataset)
    with raises(DatasetError):
        to_dataset([])
