"""Configurations that a gateway refuses."""

from typing import Any

import pytest

from tests.kit.messages import raises
from tidewheel.gateway import GatewayConfig, GatewayError


def test_by_default_only_this_machine_and_only_with_a_token() -> None:
    """Which is another one for every gateway."""
    config = GatewayConfig()
    assert config.address.is_loopback
    assert config.token is not None
    assert config.token != GatewayConfig().token
    assert config.hosts == frozenset({"localhost", "127.0.0.1", "::1"})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1", "::ffff:127.0.0.1"])
def test_without_a_token_on_loopback(host: str) -> None:
    """It has to be asked for, and then it is so."""
    config = GatewayConfig(host=host, token=None)
    assert config.hosts is not None
    assert host in config.hosts


@pytest.mark.parametrize("host", ["0.0.0.0", "0", "::", "::ffff:10.1.2.3", "10.1.2.3"])
def test_without_a_token_nowhere_else(host: str) -> None:
    """Whatever it is called, the number counts."""
    with raises(GatewayError):
        GatewayConfig(host=host, token=None)
    assert GatewayConfig(host=host).hosts is None


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"host": ""}, "is no address of this machine"),
        ({"host": " "}, "is no address of this machine"),
        ({"host": "no such host."}, "is no address of this machine"),
        ({"host": "a" * 300}, "is no address of this machine"),
        ({"token": "short"}, "a token is 16 to 512"),
        ({"port": -1}, "port is -1"),
        ({"flight_port": 65536}, "flight_port is 65536"),
        ({"max_clients": 0}, "max_clients is 0, and must be positive"),
        ({"stall_s": 0}, "stall_s is 0, and must be positive"),
        ({"origins": frozenset({"*"})}, "'\\*' is no origin"),
        ({"origins": frozenset({"null"})}, "'null' is no origin"),
        ({"origins": frozenset({"localhost:3000"})}, "is no origin"),
        ({"origins": frozenset({"http://localhost:3000/"})}, "is no origin"),
        ({"origins": frozenset({"http://*.example"})}, "is no origin"),
    ],
    ids=range(14),
)
def test_what_cannot_be_meant_is_an_error(settings: dict[str, Any], says: str) -> None:
    """Before anything listens."""
    with pytest.raises(GatewayError, match=says):
        GatewayConfig(**settings)
