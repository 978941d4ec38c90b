"""Texts without secrets."""

import json
import pickle
import time
from urllib.parse import quote, quote_plus

import pytest

from tidewheel.progress import GraphError
from tidewheel.progress.redaction import conceal, redacted


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("s3://me:pw@host/b", "s3://***@host/b"),
        ("redis://:pw@host:6379", "redis://***@host:6379"),
        ("https://token@host", "https://***@host"),
        ("postgres://me:p@ss@host/db", "postgres://***@host/db"),
        ("postgres://me:p/w+x@host/db", "postgres://***@host/db"),
        ("s3:/me:pw@host/b, as a Path has it", "s3:/***@host/b, as a Path has it"),
        ("jdbc:sqlserver://host;user=me;password=pw;x=1", "jdbc:sqlserver://host;user=me;password=***;x=1"),
        ("https://host/x?a=1&sig=ab%20c&b=2", "https://host/x?a=1&sig=***&b=2"),
        ("http://host/?token=abc&n=1", "http://host/?token=***&n=1"),
        ("password='a b', user=me", "password='*** b', user=me"),
        ('{"api_key": "abc", "n": 1}', '{"api_key": "***", "n": 1}'),
        ("AWS_SECRET_ACCESS_KEY=abc next", "AWS_SECRET_ACCESS_KEY=*** next"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("auth_token: abc", "auth_token: ***"),
    ],
)
def test_secrets_are_left_out(text: str, told: str) -> None:
    """As far as they can be told from other words; and redacting a text once more changes nothing."""
    assert redacted(text) == told
    assert redacted(told) == told


@pytest.mark.parametrize(
    "text",
    [
        "operator 'keep' has dropped its token: 3",
        "1 token for time 3 on worker 1",
        "http://host:8787/topics?mail=me@example.org",
        "see https://host/package@2.0/page",
        "file:///tmp/me@home",
        "the secret is out",
        "",
    ],
)
def test_other_texts_stay(text: str) -> None:
    """A token of a time is no secret, nor is a port, or an address in a query."""
    assert redacted(text) == text


def test_values_that_were_read_are_left_out_in_each_form() -> None:
    """As they are, and as texts escape them; the longest of several first."""
    value = "redaction's \\own/välue ="
    conceal(value, "Secret('ONE')")
    conceal(value[:-4], "Secret('PART')")
    for form in (value, repr(value)[1:-1], json.dumps(value)[1:-1], quote(value, safe=""), quote_plus(value)):
        assert redacted(f"<{form}>") == "<Secret('ONE')>"
    assert redacted(f"<{value[:-4]}>") == "<Secret('PART')>"


def test_short_values_are_not_looked_for() -> None:
    """They are parts of other words."""
    conceal("an", "Secret('SHORT')")
    assert redacted("a plan") == "a plan"


def test_an_error_has_no_secret() -> None:
    """Neither in its text nor in its arguments, here and in another process."""
    error = GraphError("no table at postgres://me:hunter2@host", 3)
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert one.args == ("no table at postgres://***@host", 3)
        assert "hunter2" not in str(one) + repr(one)


@pytest.mark.parametrize(
    "text", ["a:" * 100_000, "://a" * 50_000, "://" * 50_000, "secret " * 30_000, "a_token" * 30_000, "=" * 200_000]
)
def test_large_texts_take_little_time(text: str) -> None:
    """A record of megabytes may be in the text of an error."""
    began_s = time.process_time()
    redacted(text)
    assert time.process_time() - began_s < 5
