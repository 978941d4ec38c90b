"""The frames between a worker and its publisher, as those of `transport.frames`.

=============  ====================================================  ============================================
from           what                                                  head; payload
=============  ====================================================  ============================================
the worker     where it begins to send, once, first                  a `WorkerPosition`, pickled; none
the worker     messages, in order                                    those of the message
the publisher  how many more of them are confirmed                   the number, as msgpack; none
the publisher  that it receives nothing more, and why                the reason, a text, as msgpack; none
=============  ====================================================  ============================================
"""

from typing import Any, TypeAlias

import msgspec

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.exactly_once.journal import WorkerPosition
from tidewheel.pubsub.messages.encoded_message import EncodedMessage
from tidewheel.transport.frames import Payload, frame_of, unpickled
from tidewheel.transport.pickling import dumps

Answer: TypeAlias = int | str
"""How many more messages of a worker are confirmed, or why nothing more is received."""

_ANSWER: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def position_frame(position: WorkerPosition) -> list[Any]:
    """Return the parts of the first frame."""
    return frame_of(dumps((position.lower, position.sent)), ())


def message_frame(message: EncodedMessage) -> list[Any]:
    """Return the parts of the frame of a message."""
    return frame_of(message.head, (message.payload,))


def decode_frame(head: Payload, payload: Payload) -> EncodedMessage:
    """Return what a frame has; of the first one, `position_of` says what it is."""
    return EncodedMessage(bytes(head), payload)


def position_of(first: EncodedMessage) -> WorkerPosition:
    """Return what the first frame says.

    Raises:
        ProtocolError: it is none.
    """
    match unpickled(first.head):
        case (list(lower), dict(sent)):
            return WorkerPosition(lower, sent)
        case fields:
            raise ProtocolError(f"a worker has to say first where it begins, and not {fields!r:.100}")


def answer_frame(answer: Answer) -> list[Any]:
    """Return the parts of the frame of an answer.

    >>> [part] = answer_frame("full")
    >>> decode_answer(part[12:], b"")
    'full'
    """
    return frame_of(msgspec.msgpack.encode(answer), ())


def decode_answer(head: Payload, payload: Payload) -> Answer:
    """Return the answer that a frame is of; raises ProtocolError."""
    try:
        return _ANSWER.decode(head)
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"what came is no answer of a publisher: {error}") from error
