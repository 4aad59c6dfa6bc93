"""`/v1/models` and `/v1/chat/completions`, and the whole of `/v1`, for the official clients of OpenAI."""

from __future__ import annotations

from functools import partial

from litestar import Response, Router, get, post
from litestar.di import NamedDependency, Provide
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, JSONBody

from app.accounts.authentication import AuthenticationMiddleware
from app.accounts.identity import Identity
from app.accounts.service import AccountService
from app.clock import Now
from app.json_request import JsonRequest
from app.openai import response_routes
from app.openai.completion import ChatChunks, whole_completion
from app.openai.documented import AnswerOperation, error_responses
from app.openai.errors import PREFIX
from app.openai.opening import OpenAI
from app.openai.reader import Reader, Reading, StreamReader, WholeReader
from app.openai.schemas import ChatCompletion, ChatCompletionCreate, OpenAIModel, OpenAIModelList
from app.openai.session_name import session_name
from app.realtime.hub import Hub
from app.route_guards import known_parameters_only
from app.settings import Settings

NO_STORE = {"Cache-Control": "no-store"}


@get("/models", summary="List the models", responses=error_responses())
async def list_models(openai: NamedDependency[OpenAI]) -> Response[OpenAIModelList]:
    """The model that serves, and each persona as `persona:NAME`."""
    return Response(OpenAIModelList(data=await openai.models.all()), headers=NO_STORE)


@get("/models/{model:path}", summary="One model", responses=error_responses(404))
async def get_model(model: FromPath[str], openai: NamedDependency[OpenAI]) -> Response[OpenAIModel]:
    """By the name it has in the list, which may have slashes."""
    return Response(await openai.models.one(model.removeprefix("/")), headers=NO_STORE)


@post(
    "/chat/completions",
    summary="Answer a chat",
    status_code=200,
    operation_class=AnswerOperation,
    responses={200: ResponseSpec(ChatCompletion, description="The answer")} | error_responses(404, 413, 415, 429, 500),
)
async def create_chat_completion(
    data: JSONBody[ChatCompletionCreate],
    caller: NamedDependency[Identity],
    openai: NamedDependency[OpenAI],
    reading: NamedDependency[Reading],
    request: JsonRequest,
) -> Reader:
    """One answer, whole or as server-sent events. When the client leaves, the answer is cancelled."""
    call = await openai.completions.begin(caller, data, session_name(request))
    if not data.stream:
        return WholeReader(call, reading, whole_completion)
    include_usage = data.stream_options is not None and bool(data.stream_options.include_usage)
    return StreamReader(call, reading, ChatChunks(call, include_usage=include_usage))


def _reading(
    caller: NamedDependency[Identity],
    openai: NamedDependency[OpenAI],
    hub: NamedDependency[Hub],
    accounts: NamedDependency[AccountService],
    settings: NamedDependency[Settings],
    now: NamedDependency[Now],
) -> Reading:
    return Reading(
        calls=openai.calls,
        hub=hub,
        still_holds=partial(accounts.still_holds, caller),
        expires_in_s=caller.seconds_left(now()),
        heartbeat_s=settings.sse_heartbeat_s,
        send_timeout_s=settings.send_timeout_s,
    )


def router(settings: Settings, caller: Provide) -> Router:
    """The routes, for one application. `caller` gives the Identity of a request that is signed in."""
    return Router(
        PREFIX,
        middleware=[AuthenticationMiddleware()],
        guards=[known_parameters_only],
        dependencies={"caller": caller, "reading": Provide(_reading, sync_to_thread=False)},
        route_handlers=[list_models, get_model, create_chat_completion, *response_routes.HANDLERS],
        request_max_body_size=settings.openai_body_max_bytes,
        tags=["OpenAI"],
    )
