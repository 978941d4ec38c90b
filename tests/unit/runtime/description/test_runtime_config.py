"""`RuntimeConfig`: what is given goes before the environment, which goes before the default; errors name the place."""

import re
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises


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
        ("progress", "Broadcast"),
        ("progress", ["broadcast"]),
        ("link", None),
        ("bytes_in_flight", 0),
        ("bytes_in_flight", "many"),
        ("bytes_in_flight", 1.5),
        ("epochs_ahead", -1),
        ("hang_timeout_s", 0.0),
        ("hang_timeout_s", "1"),
        ("placement", "scatter"),
        ("resources", {"CPU": 0}),
        ("resources", {"": 1}),
        ("resources", ["CPU"]),
        ("node_labels", {"zone": 1}),
        ("node_labels", {"zone": "!a"}),
        ("deploy_timeout_s", 0),
    ],
)
def test_a_wrong_setting_is_refused(name: str, value: Any) -> None:
    """The error names the setting, what was given, and what may be."""
    with pytest.raises(
        tw.errors.ConfigError, match=rf"^RuntimeConfig\({name}={re.escape(repr(value))}\): (Expected|Invalid)"
    ):
        tw.RuntimeConfig(**{name: value})


def test_what_may_be_is_listed() -> None:
    """Where there are a few names to choose from."""
    with raises(tw.errors.ConfigError):
        tw.RuntimeConfig(placement="near")  # type: ignore[arg-type]


def test_something_else_is_no_configuration() -> None:
    """A dict of settings, say: the error says what is expected."""
    flow = tw.Dataflow("configured")
    flow.input("numbers").capture("numbers")
    with raises(tw.errors.ConfigError):
        tw.run(flow, engine="local", config={"link": "ray"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword argument 'link'"):
        tw.run(flow, engine="local", link="ray")  # type: ignore[call-arg]


def test_mappings_in_the_environment_are_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a mapping holds is converted as it is for other settings."""
    assert (tw.RuntimeConfig().resources, tw.RuntimeConfig().node_labels) == ({}, {})
    monkeypatch.setenv("TIDEWHEEL_PLACEMENT", "pack")
    monkeypatch.setenv("TIDEWHEEL_RESOURCES", '{"CPU": 1, "gold": 0.5}')
    monkeypatch.setenv("TIDEWHEEL_NODE_LABELS", '{"zone": "a"}')
    config = tw.RuntimeConfig()
    assert (config.placement, config.resources) == ("pack", {"CPU": 1.0, "gold": 0.5})
    assert config.node_labels == {"zone": "a"}
    assert tw.RuntimeConfig(resources={}).resources == {}


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("EPOCHS_AHEAD", "few"),
        ("LINK", ""),
        ("HANG_TIMEOUT_S", "-1"),
        ("PLACEMENT", "STRICT_SPREAD"),
        ("RESOURCES", ""),
        ("RESOURCES", "CPU=1"),
        ("RESOURCES", '["CPU"]'),
        ("RESOURCES", '{"CPU": "one"}'),
        ("NODE_LABELS", '{"zone": 1}'),
        ("DEPLOY_TIMEOUT_S", "soon"),
    ],
)
def test_a_wrong_variable_is_named(variable: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that whoever set it can find it."""
    monkeypatch.setenv(f"TIDEWHEEL_{variable}", text)
    with pytest.raises(
        tw.errors.ConfigError, match=f"^environment variable TIDEWHEEL_{variable}={re.escape(repr(text))}: "
    ):
        tw.RuntimeConfig()


def test_text_that_is_no_json_is_told_what_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every reader of the error knows what a malformed one is."""
    monkeypatch.setenv("TIDEWHEEL_RESOURCES", "CPU=1")
    with raises(tw.errors.ConfigError):
        tw.RuntimeConfig()


def test_a_setting_that_does_not_exist_is_refused() -> None:
    """As for any function."""
    with pytest.raises(TypeError, match="bytes_in_fligth"):
        tw.RuntimeConfig(bytes_in_fligth=1)  # type: ignore[call-arg]
