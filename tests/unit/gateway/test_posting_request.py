"""What the headers of a request to send records say."""

import pytest

from tests.kit.messages import raises
from tidewheel.gateway.errors import BadRequest, TooLarge
from tidewheel.gateway.posting_request import ARROW, MAX_BODY_BYTES, PostingRequest


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, PostingRequest()),
        ({"content-type": "application/json; charset=utf-8"}, PostingRequest("json")),
        ({"content-type": f"{ARROW}; x=y"}, PostingRequest("arrow")),
        ({"idempotency-key": "order 17"}, PostingRequest("json", "order 17")),
        ({"prefer": "wait=30"}, PostingRequest(wait_s=30.0)),
        ({"prefer": 'respond-async, Wait = "5"; x=1'}, PostingRequest(wait_s=5.0)),
        ({"prefer": "wait=999999"}, PostingRequest(wait_s=300.0)),
        ({"prefer": "await=5"}, PostingRequest()),
        ({"prefer": "wait=-1"}, PostingRequest()),
        ({"content-length": str(MAX_BODY_BYTES)}, PostingRequest()),
    ],
)
def test_headers_say_form_key_and_wait(headers: dict[str, str], expected: PostingRequest) -> None:
    """What is not understood of Prefer is ignored, as RFC 7240 has it."""
    assert PostingRequest.from_headers(headers) == expected


@pytest.mark.parametrize(
    "headers",
    [
        {"idempotency-key": ""},
        {"idempotency-key": "x" * 201},
        {"idempotency-key": "\x00"},
        {"content-encoding": "gzip"},
    ],
)
def test_wrong_headers_are_refused(headers: dict[str, str]) -> None:
    """Before the body is read."""
    with raises(BadRequest):
        PostingRequest.from_headers(headers)


def test_a_body_that_says_it_is_too_large_is_refused() -> None:
    """Before it is read."""
    with raises(TooLarge):
        PostingRequest.from_headers({"content-length": str(MAX_BODY_BYTES + 1)})
