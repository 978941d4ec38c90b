"""The routes that answer with a current state: of the keys of a look-up, or of a topic with history."""

import asyncio
from contextlib import closing
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidewheel.gateway.answers import HEADERS, answer
from tidewheel.gateway.clients import Clients, asked
from tidewheel.gateway.errors import BadRequest, GatewayError, UnknownInput
from tidewheel.gateway.streams import open_feed
from tidewheel.gateway.topic_request import TopicRequest
from tidewheel.pubsub.subscribers.subscription import Subscription
from tidewheel.runtime.engines.job_by_name import JobByName, jobs_with_lookup
from tidewheel.runtime.errors import JobError

_ANSWERS_WITHIN_S = 10.0
_STATE_WITHIN_S = 30.0
_LONGEST_TIME = 19  # digits
_DEEPEST_KEY = 20


class LookUpRoutes:
    """Looks up keys in running jobs; each job is searched for once."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str | None, str], JobByName] = {}

    async def look_up(self, request: Request) -> Response:
        """Answer with the values of a key at one epoch."""
        name, key = request.path_params["name"], _key(request.path_params["key"])
        query = request.query_params
        if unknown := set(query) - {"job", "time"}:
            raise BadRequest(f"there is no parameter {min(unknown)!r}, but job and time")
        time = query.get("time")
        if time is not None and not (time.isdecimal() and len(time) <= _LONGEST_TIME):
            raise BadRequest(f"time is an epoch, a whole number from 0 on, not {time!r:.50}")
        epoch = None if time is None else int(time)
        found = await asyncio.wrap_future(asked(lambda: self._look_up(query.get("job"), name, key, epoch)))
        return answer({"time": found.time, "values": found.values})

    def _look_up(self, job: str | None, name: str, key: Any, time: int | None) -> Any:
        place = job, name
        before = self._jobs.get(place)
        running = before or self._find(job, name)
        try:
            return running.lookup(name, key, time=time, timeout_s=_ANSWERS_WITHIN_S)
        except TimeoutError as error:
            raise GatewayError(f"{error}: try again") from None
        except JobError as error:
            self._jobs.pop(place, None)
            if before is None:
                raise error if time is None else BadRequest(str(error.args[0])) from None
        return self._look_up(job, name, key, time)  # it has ended, and another may run

    def _find(self, job: str | None, name: str) -> JobByName:
        found, there = jobs_with_lookup(job, name)
        if not found:
            raise UnknownInput(f"no running job has look-ups {name!r}; there are {', '.join(there) or 'none'}")
        if len(found) > 1:
            raise BadRequest(f"{len(found)} jobs have look-ups {name!r}: add job= with one of {', '.join(found)}")
        [running] = found.values()
        self._jobs[job, name] = running
        return running


def _key(text: str) -> Any:
    """Return the key in a text: JSON, with tuples for lists, or else the text itself."""
    try:
        return _tuples(msgspec.json.decode(text), 0)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return text
    except RecursionError:
        raise BadRequest("the key is nested too deeply") from None


def _tuples(value: Any, depth: int) -> Any:
    if isinstance(value, dict):
        raise BadRequest("a key is no object: it is a value of JSON, a list for a tuple, or a text as it stands")
    if depth > _DEEPEST_KEY:
        raise BadRequest("the key is nested too deeply")
    return tuple(_tuples(part, depth + 1) for part in value) if isinstance(value, list) else value


async def _state(request: Request, clients: Clients) -> Response:
    wanted = TopicRequest.from_query(request.path_params["topic"], request.query_params.multi_items())
    feed = await open_feed(clients, _WithHistory(wanted.topic, wanted.where), as_events=False)
    with closing(feed):
        try:
            async with asyncio.timeout(_STATE_WITHIN_S):
                first = await asyncio.wrap_future(feed.next())
        except TimeoutError:
            raise GatewayError(f"topic {wanted.topic!r} has no complete epoch yet: try again") from None
    if not isinstance(first, bytes) or not first.startswith(b'{"type":"epoch"'):
        raise GatewayError(f"topic {wanted.topic!r} has ended, or fails: {(first or b'it is empty').decode()}")
    return Response(first, 200, HEADERS, "application/json")


class _WithHistory(TopicRequest):
    def subscribe(self) -> Subscription:
        found = super().subscribe()
        if not found.has_history:
            found.close()
            raise BadRequest(
                f"topic {self.topic!r} has no present state: publish it with history=True, or read its /events"
            )
        return found


def reading_routes(clients: Clients) -> list[Route]:
    """Return the routes."""

    async def state(request: Request) -> Response:
        return await _state(request, clients)

    return [
        Route("/lookups/{name}/{key:path}", LookUpRoutes().look_up),
        Route("/topics/{topic:tidewheel_topic}/state", state),
    ]
