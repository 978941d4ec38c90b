"""The routes of inboxes: a POST of records, and a WebSocket whose messages are records.

Each message is sent as a whole or not at all. The receiving worker decodes it, so the gateway handles only bytes.
"""

import asyncio
import time
from contextlib import suppress

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from tidewheel.gateway.access import SUBPROTOCOL
from tidewheel.gateway.answers import answer, content_of, status_of
from tidewheel.gateway.clients import asked
from tidewheel.gateway.errors import BadRequest, InputFull
from tidewheel.gateway.ingest import Ingest
from tidewheel.gateway.json_form import encode_json
from tidewheel.gateway.lanes import Lanes
from tidewheel.gateway.posting_request import PostingRequest, check_size
from tidewheel.gateway.streams import REFUSED
from tidewheel.progress import TidewheelError
from tidewheel.runtime.engines.job_by_name import Sent
from tidewheel.runtime.errors import JobError, JobRolledBack
from tidewheel.runtime.inputs.door import Posting

_READS_WITHIN_S = 60.0
_SENDS_WITHIN_S = 30.0
_FULL_AGAIN_S = 0.05
_FULL_AGAIN_AT_MOST_S = 1.0

_SENT = answer({"state": "sent"}, 202)
_SAVED = answer({"state": "saved"})


def ingest_routes(ingest: Ingest) -> list[BaseRoute]:
    """Return the routes."""

    async def post(request: Request) -> Response:
        wanted = PostingRequest.from_headers(request.headers)
        job, name = request.path_params["job"], request.path_params["input"]
        posting = Posting(await _body(request), wanted.key, wanted.form)
        until_s = time.monotonic() + max(_SENDS_WITHIN_S, wanted.wait_s)
        sent = await _sent(ingest, job, name, posting, until_s)
        if wanted.wait_s and await _is_saved(ingest, job, name, sent, posting, wanted.wait_s):
            return _SAVED
        return _SENT

    async def socket(socket: WebSocket) -> None:
        offered = socket.scope.get("subprotocols", ())
        await socket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        with suppress(WebSocketDisconnect):
            await _serve(ingest, socket)

    path = "/jobs/{job:tidewheel_topic}/inputs/{input:tidewheel_topic}"
    return [Route(path, post, methods=["POST"]), WebSocketRoute(path, socket)]


async def _body(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_READS_WITHIN_S):
            async for part in request.stream():
                size += len(part)
                check_size(size)
                parts.append(part)
    except TimeoutError:
        raise BadRequest(f"the body has not come within {_READS_WITHIN_S:g} s") from None
    except ClientDisconnect:  # nobody reads the answer
        raise BadRequest("the client has left before the end of the body") from None
    return b"".join(parts)


async def _sent(ingest: Ingest, job: str, name: str, posting: Posting, until_s: float) -> Sent:
    """Send a posting to the running job ``job`` or, if this run ends before it has the posting, to its next run."""
    lanes: Lanes | None = None
    while True:
        before, lanes = lanes, ingest.lanes(job, name)
        if lanes is None:
            lanes = await asyncio.wrap_future(asked(lambda: ingest.find(job, name)))
        try:
            return await asyncio.wrap_future(lanes.submit(posting, until_s))
        except JobError:  # it has ended
            ingest.forget(job, name, lanes)
            if before is not None:
                raise


async def _is_saved(ingest: Ingest, job: str, name: str, sent: Sent, posting: Posting, wait_s: float) -> bool:
    """Wait until a snapshot has a posting; return False if that takes too long.

    If the job goes back to an earlier snapshot, a posting with a key is sent again.
    """
    until_s = time.monotonic() + wait_s
    while True:
        try:
            async with asyncio.timeout(max(0.0, until_s - time.monotonic())):
                await asyncio.wrap_future(ingest.watch.saved(sent))
        except TimeoutError:
            return False
        except JobRolledBack:
            if posting.key is None or time.monotonic() >= until_s:
                raise
            sent = await _sent(ingest, job, name, posting, until_s)
        else:
            return True


async def _serve(ingest: Ingest, socket: WebSocket) -> None:
    job, name = socket.path_params["job"], socket.path_params["input"]
    coming = asyncio.ensure_future(socket.receive())
    try:
        while (message := await coming)["type"] != "websocket.disconnect":
            coming = asyncio.ensure_future(socket.receive())
            text = message.get("text")
            posting = Posting(message["bytes"], form="arrow") if text is None else Posting(text.encode(), form="json")
            try:
                await _sent_when_there_is_room(ingest, job, name, posting, coming)
            except BadRequest as error:
                told = {"type": "error", **content_of(error)}
            except TidewheelError as error:
                await socket.send_text(encode_json({"type": "error", **content_of(error)}).decode())
                await socket.close(REFUSED + status_of(error))
                return
            else:
                told = {"type": "sent"}
            await socket.send_text(encode_json(told).decode())
    finally:
        coming.cancel()


async def _sent_when_there_is_room(
    ingest: Ingest, job: str, name: str, posting: Posting, coming: "asyncio.Future[Message]"
) -> None:
    """Send a posting; wait while the inbox is full, so that the client cannot send more than ``coming``.

    Raises:
        WebSocketDisconnect: the client has left before there was room.
    """
    pause_s = _FULL_AGAIN_S
    while True:
        try:
            await _sent(ingest, job, name, posting, time.monotonic() + _SENDS_WITHIN_S)
        except InputFull:
            if coming.done():  # the next message waits, so that the client's end is behind it
                await asyncio.sleep(pause_s)
            else:
                await asyncio.wait({coming}, timeout=pause_s)
            if coming.done() and coming.result()["type"] == "websocket.disconnect":
                raise WebSocketDisconnect from None
            pause_s = min(2 * pause_s, _FULL_AGAIN_AT_MOST_S)
        else:
            return
