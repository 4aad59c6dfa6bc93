"""Responses: answers that go on from each other by their ids. Called by the routes.

What was said is stored for its caller, unless the request says otherwise, and before the caller is told of the end: whoever has
an id can go on from it. A chain that is gone on with is a session, so its KV is kept like that of a conversation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

import msgspec
import structlog

from app.accounts.identity import Identity
from app.clock import Now
from app.database import Database
from app.errors import NotFound
from app.identifiers import new_id
from app.openai import queries
from app.openai.admission import CallAdmission
from app.openai.call import Call, CallIdentity
from app.openai.known_answers import KnownAnswers
from app.openai.model_names import ModelNames, fingerprint_of
from app.openai.models import StoredResponse
from app.openai.namespaces import namespace_of
from app.openai.queries import Owner
from app.openai.response_object import begun_response, ended_response
from app.openai.response_request import constraint_of, require_supported, top_logprobs_of, turns_of
from app.openai.response_schemas import ResponseCreate, ResponseObject
from app.openai.response_tools import FunctionCallItem, StoredTurn, ToolChoice
from app.openai.sampling import sampling_of
from app.openai.structure import require_told, tools_of
from app.responses.token_ids import packed_token_ids, unpacked_token_ids
from app.settings import Settings
from app.usage.limits import Spender
from engine.client import EngineClient
from engine.errors import EngineError
from engine.structure import ToolCall
from engine.types import (
    ContextPolicy,
    Finished,
    GenerationRequest,
    ModelInfo,
    Priority,
    RequestId,
    Role,
    SessionKey,
    Turn,
)

logger = structlog.stdlib.get_logger(__name__)

RESPONSE_ID = re.compile(r"resp_[0-9a-f]{32}")


class NoSuchPrevious(NotFound):
    """A response to go on from that is not there, or somebody else's, or has lost what it went on from."""

    code = "previous_response_not_found"
    param = "previous_response_id"


@dataclass(frozen=True, slots=True)
class Beginning:
    """A response that is being made."""

    call: Call
    begun: ResponseObject


class Responses:
    """Owns stored responses in SQL."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        engine: EngineClient,
        names: ModelNames,
        admission: CallAdmission,
        answers: KnownAnswers,
        *,
        now: Now,
    ) -> None:
        self._settings = settings
        self._database = database
        self._engine = engine
        self._names = names
        self._admission = admission
        self._answers = answers
        self._now = now

    async def begin(self, caller: Identity, wanted: ResponseCreate, session: str | None) -> Beginning:
        """The call, which is being answered.

        Raises RefusedParameter, UnknownModel, NoSuchPrevious, TooManyRequests or Unavailable.
        """
        require_supported(wanted)
        said = turns_of(wanted.input)
        speaker = await self._names.speaker(wanted.model)
        sampling = sampling_of(
            wanted, wanted.max_output_tokens, self._settings, speaker.params, top_logprobs=top_logprobs_of(wanted)
        )
        history: list[Turn] = []
        number = new_id()
        response_id = root_id = f"resp_{number.replace('-', '')}"
        if wanted.previous_response_id is not None:
            chain = await self._chain(caller, wanted)
            history, root_id = _turns_of(chain, speaker.model), chain[0].root_id
            session = session or _session_name(root_id)
        require_told((*history, *said), "input", speaker.model)
        choice = wanted.tool_choice
        tools = tools_of(
            [tool.function for tool in wanted.tools or ()],
            choice.named if isinstance(choice, ToolChoice) else choice,
            parallel=wanted.parallel_tool_calls,
            model=speaker.model,
        )
        instructions = () if wanted.instructions is None else (Turn(Role.SYSTEM, wanted.instructions),)
        namespace = namespace_of(caller, wanted.user)
        request = GenerationRequest(
            RequestId(number),
            self._answers.recognised(namespace, (*speaker.opening, *instructions, *history, *said)),
            sampling,
            namespace=namespace,
            session=session,
            persona=speaker.persona,
            priority=Priority.BOT,
            constraint=constraint_of(wanted),
            tools=tools,
            context_policy=ContextPolicy.DROP_OLDEST_TURNS if wanted.truncation == "auto" else ContextPolicy.ERROR,
        )
        identity = CallIdentity(
            id=response_id,
            model=wanted.model,
            fingerprint=fingerprint_of(speaker.model),
            created_at=self._now(),
            credential_id=caller.credential_id,
        )
        begun = begun_response(identity, wanted, sampling)

        async def keep(call: Call, finished: Finished) -> None:
            stored = StoredResponse(
                id=response_id,
                user_id=caller.user_id,
                key_id=caller.key_id,
                customer=wanted.user,
                previous_id=wanted.previous_response_id,
                root_id=root_id,
                input=msgspec.to_builtins(list(map(StoredTurn.of, said))),
                output=call.text.replace("\x00", "\N{REPLACEMENT CHARACTER}"),
                token_ids=_packed(call, finished, speaker.model),
                body=msgspec.json.encode(self.ended(begun, call, finished)),
                created_at=identity.created_at,
            )
            async with self._database.write() as unit:
                unit.add(stored)

        spender = Spender(caller.user_id, caller.key_id, speaker.persona)
        call = await self._admission.begin(
            identity, request, spender, prompt="input", form="text.format", keep=keep if begun.store else None
        )
        return Beginning(call, begun)

    def ended(self, begun: ResponseObject, call: Call, finished: Finished) -> ResponseObject:
        """As it has ended."""
        return ended_response(begun, call, finished, self._now())

    async def get(self, caller: Identity, response_id: str) -> bytes:
        """A stored response as it was answered, in JSON. Raises NotFound."""
        return (await self._stored(caller, response_id)).body

    async def delete(self, caller: Identity, response_id: str) -> None:
        """Remove it, and what is computed of its chain's session. Raises NotFound."""
        stored = await self._stored(caller, response_id)
        async with self._database.write() as session:
            await queries.remove(session, stored)
        key = SessionKey(namespace_of(caller, stored.customer), _session_name(stored.root_id))
        try:
            await self._engine.drop_session(key)
        except EngineError as problem:
            # Its time runs out all the same.
            logger.warning("session_not_dropped", response_id=response_id, error=str(problem))

    async def purge(self) -> None:
        """Remove chains in which nothing was said for as long as they are kept."""
        if self._settings.openai_responses_days:
            moment = self._now() - timedelta(days=self._settings.openai_responses_days)
            async with self._database.write() as session:
                await queries.remove_older(session, moment)

    async def _stored(self, caller: Identity, response_id: str) -> StoredResponse:
        found = None
        if RESPONSE_ID.fullmatch(response_id):
            async with self._database.read() as session:
                found = await queries.find(session, _owner(caller), response_id)
        if found is None:
            raise NotFound("there is no such response", code="response_not_found")
        return found

    async def _chain(self, caller: Identity, wanted: ResponseCreate) -> list[StoredResponse]:
        """Everything that was said before, the oldest first. Of the same customer only."""
        previous_id = wanted.previous_response_id or ""
        chain: list[StoredResponse] = []
        if RESPONSE_ID.fullmatch(previous_id):
            async with self._database.read() as session:
                found = await queries.find(session, _owner(caller), previous_id)
                if found is not None and found.customer == wanted.user:
                    chain = await queries.chain(session, previous_id)
        if not chain:
            raise NoSuchPrevious(f"there is no response {previous_id[:64]!r} to go on from")
        if chain[0].previous_id is not None:
            raise NoSuchPrevious(
                f"a response that {previous_id!r} went on from was deleted, so nobody can go on from it"
            )
        return chain


def _owner(caller: Identity) -> Owner:
    return Owner(caller.user_id, caller.key_id)


def _session_name(root_id: str) -> str:
    return f"responses/{root_id}"


def _packed(call: Call, finished: Finished, model: ModelInfo) -> bytes | None:
    """Only ids that stand for exactly the text that is stored."""
    if finished.token_ids is None or "\x00" in call.text:
        return None
    return packed_token_ids(finished.token_ids, model.fingerprint)


def _turns_of(chain: list[StoredResponse], model: ModelInfo) -> list[Turn]:
    turns: list[Turn] = []
    for stored in chain:
        turns += [given.turn for given in msgspec.convert(stored.input, list[StoredTurn])]
        output = msgspec.json.decode(stored.body, type=ResponseObject).output
        calls = tuple(
            ToolCall(item.call_id, item.name, item.arguments) for item in output if isinstance(item, FunctionCallItem)
        )
        if stored.output or calls:
            token_ids = unpacked_token_ids(stored.token_ids, model.fingerprint)
            turns.append(Turn(Role.ASSISTANT, stored.output, token_ids, calls))
    return turns
