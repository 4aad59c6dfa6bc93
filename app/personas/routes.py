"""`/api/v1/personas…`."""

from __future__ import annotations

from litestar import Response, Router, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from app.accounts.identity import Identity
from app.idempotency import REPLAYED_HEADER, IdempotentRequest
from app.pagination import LIMIT_DEFAULT, CursorText, Limit
from app.personas.schemas import PersonaBody, PersonaCreate, PersonaList, PersonaPatch, PersonaVersionList
from app.personas.service import PersonaService
from app.problems import problem_responses
from app.route_guards import admins_only

NO_STORE = {"Cache-Control": "no-store"}


@get("/", summary="List personas", responses=problem_responses(400, 401))
async def list_personas(
    personas: NamedDependency[PersonaService], limit: Limit = LIMIT_DEFAULT, cursor: CursorText = None
) -> Response[PersonaList]:
    """All of them, the newest first; everybody may begin a conversation with any."""
    return Response(await personas.page(limit=limit, cursor=cursor), headers=NO_STORE)


@post(
    "/", summary="Make a persona", guards=[admins_only], responses=problem_responses(400, 401, 403, 409, 413, 415, 422)
)
async def create_persona(
    data: JSONBody[PersonaCreate],
    caller: NamedDependency[Identity],
    idempotent: NamedDependency[IdempotentRequest | None],
    personas: NamedDependency[PersonaService],
) -> Response[PersonaBody]:
    """For administrators. Its prompt is computed ahead, so that no conversation waits for it. A prompt that leaves no room for a
    question is refused with `prompt_tokens` and `available_tokens`."""
    body, replayed = await personas.create(caller, data, idempotent)
    headers = {"Location": f"/api/v1/personas/{body.name}", **(REPLAYED_HEADER if replayed else {})}
    return Response(body, headers={**NO_STORE, **headers})


@get("/{persona_name:str}", summary="Read a persona", responses=problem_responses(401, 404))
async def get_persona(persona_name: FromPath[str], personas: NamedDependency[PersonaService]) -> Response[PersonaBody]:
    """Its prompt, its sampling defaults, and how far the engine is with computing it ahead."""
    return Response(await personas.get(persona_name), headers=NO_STORE)


@get(
    "/{persona_name:str}/versions",
    summary="List a persona's versions",
    guards=[admins_only],
    responses=problem_responses(400, 401, 403, 404),
)
async def list_persona_versions(
    persona_name: FromPath[str],
    personas: NamedDependency[PersonaService],
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
) -> Response[PersonaVersionList]:
    """For administrators: what it says now, and what conversations go on with that began earlier, the newest first."""
    return Response(await personas.versions(persona_name, limit=limit, cursor=cursor), headers=NO_STORE)


@patch(
    "/{persona_name:str}",
    summary="Change a persona",
    guards=[admins_only],
    responses=problem_responses(400, 401, 403, 404, 413, 415),
)
async def patch_persona(
    persona_name: FromPath[str],
    data: JSONBody[PersonaPatch],
    caller: NamedDependency[Identity],
    personas: NamedDependency[PersonaService],
) -> Response[PersonaBody]:
    """For administrators. Conversations go on with the version that they began with; those that begin from now on follow the new
    prompt."""
    return Response(await personas.update(caller, persona_name, data), headers=NO_STORE)


@delete(
    "/{persona_name:str}",
    summary="Delete a persona",
    guards=[admins_only],
    responses=problem_responses(401, 403, 404),
)
async def delete_persona(
    persona_name: FromPath[str], caller: NamedDependency[Identity], personas: NamedDependency[PersonaService]
) -> None:
    """For administrators. Its conversations go on without a system prompt; new ones cannot begin with it."""
    await personas.delete(caller, persona_name)


def router() -> Router:
    """The routes, for one application."""
    return Router(
        "/personas",
        route_handlers=[
            list_personas,
            create_persona,
            get_persona,
            list_persona_versions,
            patch_persona,
            delete_persona,
        ],
        tags=["Personas"],
    )
