"""The requests of clients."""

import pytest

from tests.kit.gateway.served import published
from tests.kit.messages import raises
from tidewheel.gateway import BadRequest, Comparison, RecordFilter
from tidewheel.gateway.topic_request import TopicRequest, check_exists
from tidewheel.pubsub.errors import UnknownTopic


def test_a_query_is_a_request() -> None:
    """With all that may be in it."""
    request = TopicRequest.from_query(
        "a/b", [("where", "n>1"), ("epochs", "false"), ("slow", "drop_epochs"), ("where", "m==2")]
    )
    wanted = RecordFilter((Comparison("n", ">", 1), Comparison("m", "==", 2)))
    assert request == TopicRequest("a/b", wanted, whole=False, slow="drop_epochs")


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ([("were", "n>1")], "there is no parameter 'were', but where, epochs and slow"),
        ([("epochs", "yes")], "epochs is true or false, not 'yes'"),
        ([("slow", "wait")], "slow is one of disconnect, drop_epochs, not 'wait'"),
        ([("slow", "block")], "slow is one of disconnect, drop_epochs, not 'block'"),
        ([("epochs", "true"), ("epochs", "false")], "epochs= is there more than once"),
        ([("where", "n")], "where='n' is no condition"),
    ],
    ids=range(6),
)
def test_a_query_that_cannot_be_meant_is_refused(parameters: list[tuple[str, str]], says: str) -> None:
    """Nobody outside may hold back the dataflow, either."""
    with pytest.raises(BadRequest) as caught:
        TopicRequest.from_query("words", parameters)
    assert says in str(caught.value)


def test_a_ticket_is_a_request() -> None:
    """As JSON, and back."""
    assert TopicRequest.from_command(TopicRequest("a/b ß").command()) == TopicRequest("a/b ß")
    command = b'{"topic": "words", "where": ["n>1"], "slow": "drop_epochs"}'
    assert TopicRequest.from_command(command) == TopicRequest(
        "words", RecordFilter((Comparison("n", ">", 1),)), slow="drop_epochs"
    )


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (b"words", "a ticket is JSON such as"),
        (b"\xff", "a ticket is JSON such as"),
        (b'{"topic": "\xff"}', "a ticket is JSON such as"),
        (b"{}", "missing required field `topic`"),
        (b'{"topic": 1}', "Expected `str`, got `int`"),
        (b'{"topic": "words", "were": []}', "unknown field `were`"),
        (b'{"topic": "words", "slow": "block"}', "Invalid enum value 'block'"),
        (b'{"topic": "words", "where": "n>1"}', "Expected `array`, got `str`"),
        (b'{"topic": "words", "where": ["n"]}', "where='n' is no condition"),
        (b"[" * 100_000, "a ticket is JSON such as"),
    ],
    ids=range(10),
)
def test_a_ticket_that_cannot_be_meant_is_refused(command: bytes, says: str) -> None:
    """With what is wrong with it."""
    with pytest.raises(BadRequest) as caught:
        TopicRequest.from_command(command)
    assert says in str(caught.value)


def test_a_topic_that_nobody_publishes_is_told_with_those_that_there_are() -> None:
    """Also where there are only topics of this process."""
    with published("request/here"):
        check_exists("request/here")
        with raises(UnknownTopic) as caught:
            check_exists("request/there")
    assert "request/here" in caught.value.topics
