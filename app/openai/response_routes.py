"""`/v1/responses…`, for the official clients of OpenAI."""

from __future__ import annotations

from functools import partial

from litestar import Response, delete, get, post
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, JSONBody

from app.accounts.identity import Identity
from app.json_request import JsonRequest
from app.openai.documented import AnswerOperation, error_responses
from app.openai.opening import OpenAI
from app.openai.reader import Reader, Reading, StreamReader, WholeReader
from app.openai.response_events import ResponseEvents
from app.openai.response_schemas import ResponseCreate, ResponseDeleted, ResponseObject
from app.openai.session_name import session_name

NO_STORE = {"Cache-Control": "no-store"}


@post(
    "/responses",
    summary="Answer, and keep the answer",
    status_code=200,
    operation_class=AnswerOperation,
    responses={200: ResponseSpec(ResponseObject, description="The response")}
    | error_responses(404, 413, 415, 429, 500),
)
async def create_response(
    data: JSONBody[ResponseCreate],
    caller: NamedDependency[Identity],
    openai: NamedDependency[OpenAI],
    reading: NamedDependency[Reading],
    request: JsonRequest,
) -> Reader:
    """One answer, whole or as typed server-sent events; with `previous_response_id` behind what was said before."""
    responses = openai.responses
    beginning = await responses.begin(caller, data, session_name(request))
    call, ended = beginning.call, partial(responses.ended, beginning.begun)
    if not data.stream:
        return WholeReader(call, reading, ended)
    return StreamReader(call, reading, ResponseEvents(call, beginning.begun, ended))


@get(
    "/responses/{response_id:str}",
    summary="Read a response",
    responses={200: ResponseSpec(ResponseObject, description="The response")} | error_responses(404),
)
async def get_response(
    response_id: FromPath[str], caller: NamedDependency[Identity], openai: NamedDependency[OpenAI]
) -> Response[bytes]:
    """As it was answered. Those of other keys are not there."""
    body = await openai.responses.get(caller, response_id)
    return Response(body, media_type="application/json", headers=NO_STORE)


@delete("/responses/{response_id:str}", summary="Delete a response", status_code=200, responses=error_responses(404))
async def delete_response(
    response_id: FromPath[str], caller: NamedDependency[Identity], openai: NamedDependency[OpenAI]
) -> Response[ResponseDeleted]:
    """What went on from it stays, and cannot be gone on with."""
    await openai.responses.delete(caller, response_id)
    return Response(ResponseDeleted(id=response_id), headers=NO_STORE)


HANDLERS = [create_response, get_response, delete_response]
