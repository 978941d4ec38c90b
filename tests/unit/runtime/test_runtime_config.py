"""`RuntimeConfig`: what is given goes before the environment, which goes before the default; errors name the place."""

from typing import Any

import pytest

import tidewheel as tw


def test_what_is_given_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the environment, then the default."""
    assert tw.RuntimeConfig().link == "socket"
    monkeypatch.setenv("TIDEWHEEL_LINK", "ray")
    monkeypatch.setenv("TIDEWHEEL_BYTES_IN_FLIGHT", "1000")
    monkeypatch.setenv("TIDEWHEEL_HANG_TIMEOUT_S", "2")
    config = tw.RuntimeConfig(bytes_in_flight=7)
    assert (config.link, config.bytes_in_flight, config.hang_timeout_s) == ("ray", 7, 2.0)
    assert tw.RuntimeConfig().bytes_in_flight == 1000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("progress", "gossip"),
        ("link", None),
        ("bytes_in_flight", 0),
        ("bytes_in_flight", "many"),
        ("bytes_in_flight", 1.5),
        ("epochs_ahead", -1),
        ("hang_timeout_s", 0.0),
        ("hang_timeout_s", "1"),
    ],
)
def test_a_wrong_setting_is_refused(name: str, value: Any) -> None:
    """The error names the setting, what was given, and what may be."""
    with pytest.raises(tw.ConfigError, match=rf"^RuntimeConfig\({name}={value!r}\): (Expected|Invalid)"):
        tw.RuntimeConfig(**{name: value})


@pytest.mark.parametrize(("variable", "text"), [("EPOCHS_AHEAD", "few"), ("LINK", ""), ("HANG_TIMEOUT_S", "-1")])
def test_a_wrong_variable_is_named(variable: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that whoever set it can find it."""
    monkeypatch.setenv(f"TIDEWHEEL_{variable}", text)
    with pytest.raises(tw.ConfigError, match=f"^environment variable TIDEWHEEL_{variable}='{text}': "):
        tw.RuntimeConfig()


def test_a_setting_that_does_not_exist_is_refused() -> None:
    """As for any function."""
    with pytest.raises(TypeError, match="bytes_in_fligth"):
        tw.RuntimeConfig(bytes_in_fligth=1)  # type: ignore[call-arg]
