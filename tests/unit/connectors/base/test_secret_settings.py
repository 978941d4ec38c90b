"""Settings of client libraries have their passwords by name, wherever they are."""

from typing import Any

import cloudpickle
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.connectors.base.secret_settings import check_secrets, with_secrets
from tidewheel.connectors.delta import DeltaSink
from tidewheel.connectors.iceberg import IcebergSink
from tidewheel.progress import GraphError


@pytest.mark.parametrize(
    "settings",
    [
        {"auth": {"type": "basic", "basic": {"username": "me", "password": "sea-horse"}}},
        {"auth": {"proxy": "http://me:sea-horse@proxy"}},
        {"header.X-Api-Key": "sea-horse"},
        {"header.Authorization": "Basic sea-horse"},
    ],
    ids=["inner", "inner URL", "key", "header"],
)
def test_a_password_of_a_catalog_is_refused(settings: dict[str, Any]) -> None:
    """It would be pickled; the error does not have it."""
    with raises(GraphError) as refused:
        IcebergSink({"type": "rest", "uri": "http://catalog", **settings}, "sea.tides", name="tides")
    assert "sea-horse" not in str(refused.value)


@pytest.mark.parametrize("name", ["azure_storage_master_key", "master_key", "aws_sse_customer_key_base64"])
def test_a_key_of_a_store_is_refused(name: str) -> None:
    """It would be pickled; the error does not have it."""
    with raises(GraphError) as refused:
        DeltaSink("s3://sea/tides", name="tides", storage_options={name: "sea-horse"})
    assert "sea-horse" not in str(refused.value)


def test_inner_secrets_are_read_where_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickle has their names, and the client library their values."""
    monkeypatch.setenv("TIDES_PASSWORD", "sea-horse")
    basic = {"username": "me", "password": tw.Secret("TIDES_PASSWORD")}
    settings = {"auth": {"type": "basic", "basic": basic}, "header.Authorization": tw.Secret("TIDES_PASSWORD")}
    check_secrets("IcebergSink", "catalog", settings, "PASSWORD")
    assert b"sea-horse" not in cloudpickle.dumps(settings)
    assert with_secrets(settings) == {
        "auth": {"type": "basic", "basic": {"username": "me", "password": "sea-horse"}},
        "header.Authorization": "sea-horse",
    }


def test_other_settings_are_in_clear() -> None:
    """Addresses, names of algorithms and numbers of keys."""
    settings = {
        "uri": "http://catalog",
        "auth": {"type": "oauth2", "oauth2": {"client_id": "me", "token_url": "http://catalog/token"}},
        "aws_sse_customer_algorithm": "AES256",
        "aws_sse_kms_key_id": "tides",
        "header.X-Tenant": "sea",
        "timeout": 30,
    }
    check_secrets("IcebergSink", "catalog", settings, "PASSWORD")
    assert with_secrets(settings) == settings
