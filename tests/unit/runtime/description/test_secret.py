"""Secrets by name."""

import pickle

import cloudpickle
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.progress.redaction import redacted

VALUE = "a value of the environment"


def test_a_secret_is_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever shows or pickles it, before and after its value was read."""
    monkeypatch.setenv("TIDEWHEEL_TEST_SECRET", VALUE)
    secret = tw.Secret("TIDEWHEEL_TEST_SECRET")
    for _ in range(2):
        assert {repr(secret), str(secret), f"{secret}"} == {"Secret('TIDEWHEEL_TEST_SECRET')"}
        for dumps in (pickle.dumps, cloudpickle.dumps):
            pickled = dumps(secret)
            assert VALUE.encode() not in pickled
            assert pickle.loads(pickled) == secret
        assert secret.value() == VALUE


def test_the_value_is_that_of_the_process_that_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time anew; once it was read, texts have the name in its place."""
    secret = tw.Secret("TIDEWHEEL_TEST_SECRET")
    for value in ("the first value", "the second value"):
        monkeypatch.setenv("TIDEWHEEL_TEST_SECRET", value)
        assert secret.value() == value
        assert redacted(f"no login with {value}") == "no login with Secret('TIDEWHEEL_TEST_SECRET')"


@pytest.mark.parametrize("value", [None, ""])
def test_a_value_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    """An empty password would be tried in silence."""
    monkeypatch.delenv("TIDEWHEEL_TEST_SECRET", raising=False)
    if value is not None:
        monkeypatch.setenv("TIDEWHEEL_TEST_SECRET", value)
    with raises(tw.errors.ConfigError):
        tw.Secret("TIDEWHEEL_TEST_SECRET").value()


@pytest.mark.parametrize("name", ["", "A=B", "A\0B", None, 3, tw.Secret("X")])
def test_what_is_no_name_is_refused(name: object) -> None:
    """And not shown, as it may be the secret itself."""
    with pytest.raises(tw.errors.ConfigError) as caught:
        tw.Secret(name)  # type: ignore[arg-type]
    assert "A=B" not in str(caught.value)
