"""`/api/v1/conversations/{id}/messages|responses` (to add to a conversation) and `/api/v1/responses/…`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from litestar import Response, Router, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, HeaderParameter, JSONBody, QueryParameter

from app.accounts.identity import Identity
from app.accounts.service import AccountService
from app.clock import Now
from app.errors import Conflict
from app.idempotency import REPLAYED_HEADER, IdempotentRequest
from app.problems import problem_responses
from app.realtime.hub import Hub
from app.responses.event_stream import EventStream
from app.responses.reading import ResponseReader
from app.responses.schemas import Accepted, MessageCreate, Regenerate, ResponseBody
from app.responses.service import NewTurn, TurnService
from app.settings import Settings

NO_STORE = {"Cache-Control": "no-store"}
REFUSALS = problem_responses(400, 401, 403, 404, 409, 413, 415, 422, 429, 503)
LAST_SEQ_MAX = 2**53

Seq = Annotated[int, QueryParameter(ge=0, le=LAST_SEQ_MAX, description="The last event that is known already")]


@post(
    "/conversations/{conversation_id:str}/messages",
    summary="Say something",
    status_code=202,
    responses=REFUSALS,
    tags=["Conversations"],
)
async def create_message(
    conversation_id: FromPath[str],
    data: JSONBody[MessageCreate],
    caller: NamedDependency[Identity],
    idempotent: NamedDependency[IdempotentRequest | None],
    turns: NamedDependency[TurnService],
) -> Response[Accepted]:
    """The message is durable when this answers; its answer is being made and is followed through its events. `response` is null
    where the model is silent: a person answers the conversation, or is waited for. Another `parent_id` than the newest answer
    makes a branch. The same `client_message_id` again is the same message."""
    return _accepted(
        await turns.say(caller.user_id, conversation_id, data, key_id=caller.key_id, idempotent=idempotent)
    )


@post(
    "/conversations/{conversation_id:str}/responses",
    summary="Answer again",
    status_code=202,
    responses=REFUSALS,
    tags=["Conversations"],
)
async def regenerate(
    conversation_id: FromPath[str],
    data: JSONBody[Regenerate],
    caller: NamedDependency[Identity],
    idempotent: NamedDependency[IdempotentRequest | None],
    turns: NamedDependency[TurnService],
) -> Response[Accepted]:
    """Another answer to a message of the user, beside the ones it has. `message` is the new answer's, still empty."""
    return _accepted(
        await turns.regenerate(caller.user_id, conversation_id, data, key_id=caller.key_id, idempotent=idempotent)
    )


@get("/responses/{response_id:str}", summary="Read an answer's state", responses=problem_responses(401, 404))
async def get_response(
    response_id: FromPath[str], caller: NamedDependency[Identity], reader: NamedDependency[ResponseReader]
) -> Response[ResponseBody]:
    """How far it is, how it ended, and what it cost."""
    return Response(await reader.get(caller.user_id, response_id), headers=NO_STORE)


@post(
    "/responses/{response_id:str}/cancel",
    summary="Stop an answer",
    status_code=200,
    responses=problem_responses(401, 403, 404),
)
async def cancel_response(
    response_id: FromPath[str], caller: NamedDependency[Identity], reader: NamedDependency[ResponseReader]
) -> Response[ResponseBody]:
    """Ends it within a step of the engine and keeps what was shown; `usage` says how much that is. Stopping it twice, or after
    its end, changes nothing."""
    return Response(await reader.cancel(caller.user_id, response_id), headers=NO_STORE)


@get(
    "/responses/{response_id:str}/events",
    summary="Follow an answer",
    media_type="text/event-stream",
    responses=problem_responses(400, 401, 404, 409),
)
async def follow_response(
    response_id: FromPath[str],
    caller: NamedDependency[Identity],
    reader: NamedDependency[ResponseReader],
    hub: NamedDependency[Hub],
    accounts: NamedDependency[AccountService],
    settings: NamedDependency[Settings],
    now: NamedDependency[Now],
    after: Seq = 0,
    last_event_id: Annotated[
        int | None,
        HeaderParameter(
            name="Last-Event-ID",
            ge=0,
            le=LAST_SEQ_MAX,
            description="What a browser that reconnects has; before `after`",
        ),
    ] = None,
) -> EventStream:
    """Server-sent events: the frames of the socket, `id` is their `seq`. Works while the answer is being made, after its end
    and after a restart; ends behind the terminal event, and is 204 where there is nothing behind `after`."""
    seq = after if last_event_id is None else last_event_id
    log = await reader.log(caller.user_id, response_id)
    if seq > log.staged_seq and not log.is_copy:
        raise Conflict(
            f"the response has {log.last_seq} events, and those after {seq} were asked for; read its message instead",
            code="ahead_of_log",
            members={"last_seq": log.last_seq},
        )
    return EventStream(
        hub,
        log,
        seq,
        credential_id=caller.credential_id,
        still_holds=partial(accounts.still_holds, caller),
        expires_in_s=caller.seconds_left(now()),
        heartbeat_s=settings.sse_heartbeat_s,
        send_timeout_s=settings.send_timeout_s,
    )


def _accepted(turn: NewTurn) -> Response[Accepted]:
    response = turn.accepted.response
    headers = {**NO_STORE, **({} if response is None else {"Location": f"/api/v1/responses/{response.id}"})}
    return Response(turn.accepted, headers=headers | (REPLAYED_HEADER if turn.is_repeat else {}))


def router() -> Router:
    """The routes, for one application."""
    return Router(
        "/",
        route_handlers=[create_message, regenerate, get_response, cancel_response, follow_response],
        tags=["Responses"],
    )
