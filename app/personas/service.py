"""What people do with personas: everybody reads them, administrators write them. Called by routes and by the command line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import UNSET

from app.accounts.identity import Identity
from app.audit.service import AuditLog
from app.clock import Now
from app.database import Database, insert_if_absent
from app.errors import Conflict, InvalidInput, NotFound, PayloadTooLarge
from app.idempotency import Idempotency, IdempotentRequest
from app.identifiers import new_id
from app.pagination import decode_cursor, encode_cursor
from app.personas import queries
from app.personas.models import Persona, PersonaVersion
from app.personas.prefixes import PersonaPrefixes
from app.personas.schemas import (
    PersonaBody,
    PersonaCreate,
    PersonaCursor,
    PersonaList,
    PersonaPatch,
    PersonaVersionBody,
    PersonaVersionCursor,
    PersonaVersionList,
    PrefixBody,
)
from app.realtime.protocol import ResponseParams
from app.responses.params import sampling_params
from app.settings import Settings
from app.text import require_storable
from engine.snapshot import PrefixState

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PersonaService:
    """Owns personas in SQL. At the command line no engine runs and nobody is signed in: `prefixes` and `caller` are None."""

    def __init__(
        self,
        database: Database,
        idempotency: Idempotency,
        audit: AuditLog,
        settings: Settings,
        prefixes: PersonaPrefixes | None = None,
        *,
        now: Now,
    ) -> None:
        self._database = database
        self._idempotency = idempotency
        self._audit = audit
        self._settings = settings
        self._prefixes = prefixes
        self._now = now

    async def create(
        self, caller: Identity | None, wanted: PersonaCreate, request: IdempotentRequest | None = None
    ) -> tuple[PersonaBody, bool]:
        """A new persona, and whether it had been made before under the same key. Raises Conflict where the name is taken."""
        prompt, params = await self._checked(wanted.system_prompt), self._params(wanted.params)
        async with self._database.write() as session:
            if (kept := await self._idempotency.claim(session, request)) is not None:
                return msgspec.json.decode(kept.body, type=PersonaBody), True
            now = self._now()
            version = PersonaVersion(id=new_id(), name=wanted.name, system_prompt=prompt, params=params, created_at=now)
            session.add(version)
            await session.flush()
            values = {
                "name": wanted.name,
                "version_id": version.id,
                "handoff_keywords": wanted.handoff_keywords,
                "created_at": now,
                "updated_at": now,
            }
            if not await insert_if_absent(session, Persona, values):
                raise Conflict(f"there is already a persona {wanted.name!r}", code="persona_exists")
            persona = await queries.find_persona(session, wanted.name)
            body = PersonaBody.of(persona, PrefixBody(PrefixState.BUILDING))
            await self._idempotency.keep(session, request, 201, msgspec.json.encode(body))
            self._audit.record(session, caller, "persona.create", wanted.name)
        await self._changed(wanted.name)
        return await self._body(persona), False

    async def page(self, *, limit: int, cursor: str | None) -> PersonaList:
        """A page of all of them, the newest first."""
        before = None
        if cursor is not None:
            place = decode_cursor(cursor, PersonaCursor)
            before = (EPOCH + timedelta(microseconds=place.created_us), place.name)
        async with self._database.read() as session:
            found = await queries.personas_page(session, limit=limit + 1, before=before)
        next_cursor = None
        if len(found) > limit:
            last = found[limit - 1]
            next_cursor = encode_cursor(
                PersonaCursor((last.created_at - EPOCH) // timedelta(microseconds=1), last.name)
            )
        shown = found[:limit]
        prefixes = await self._states([persona.name for persona in shown])
        return PersonaList([PersonaBody.of(persona, prefixes[persona.name]) for persona in shown], next_cursor)

    async def every_name(self) -> list[tuple[str, datetime]]:
        """The names of all of them in alphabetical order, each with when it was made."""
        async with self._database.read() as session:
            return await queries.every_name_and_date(session)

    async def current_version(self, name: str) -> PersonaVersion | None:
        """What it says to whoever asks now; None where there is no persona of that name."""
        async with self._database.read() as session:
            return await queries.current_version(session, name)

    async def get(self, name: str) -> PersonaBody:
        """One persona. Raises NotFound."""
        require_storable(name, "the name")
        async with self._database.read() as session:
            persona = await queries.find_persona(session, name)
        return await self._body(persona)

    async def versions(self, name: str, *, limit: int, cursor: str | None) -> PersonaVersionList:
        """A page of what it says and has said, as far as conversations go on with it, the newest first. Raises NotFound."""
        require_storable(name, "the name")
        before = None
        if cursor is not None:
            place = decode_cursor(cursor, PersonaVersionCursor)
            before = (EPOCH + timedelta(microseconds=place.created_us), place.id)
        async with self._database.read() as session:
            persona = await queries.find_persona(session, name)
            found = await queries.versions_page(session, name, limit=limit + 1, before=before)
        items = [
            PersonaVersionBody.of(version, version.id == persona.version_id, conversations)
            for version, conversations in found[:limit]
        ]
        next_cursor = None
        if len(found) > limit:
            last = items[-1]
            microseconds = ((last.created_at or EPOCH) - EPOCH) // timedelta(microseconds=1)
            next_cursor = encode_cursor(PersonaVersionCursor(microseconds, last.id))
        return PersonaVersionList(items, next_cursor)

    async def update(self, caller: Identity | None, name: str, patch: PersonaPatch) -> PersonaBody:
        """Change it for conversations that begin from now on; the others go on with what they began with. Raises NotFound."""
        require_storable(name, "the name")
        changes: dict[str, Any] = {}
        if patch.system_prompt is not UNSET:
            changes["system_prompt"] = await self._checked(patch.system_prompt)
        if patch.params is not UNSET:
            changes["params"] = self._params(patch.params)
        async with self._database.write() as session:
            persona = await queries.find_persona(session, name, for_update=True)
            said = {"system_prompt": persona.version.system_prompt, "params": persona.version.params}
            changed: list[str] = []
            if said | changes != said:
                persona.version = PersonaVersion(id=new_id(), name=name, created_at=self._now(), **(said | changes))
                changed += changes
            if patch.handoff_keywords not in (UNSET, persona.handoff_keywords):
                persona.handoff_keywords = patch.handoff_keywords
                changed.append("handoff_keywords")
            if changed:
                persona.updated_at = self._now()
                self._audit.record(session, caller, "persona.update", name, changed=sorted(changed))
        await self._changed(name)
        return await self._body(persona)

    async def put(self, caller: Identity | None, wanted: PersonaCreate) -> PersonaBody:
        """Make it, or change the one that has its name."""
        try:
            return await self.update(caller, wanted.name, PersonaPatch(wanted.system_prompt, wanted.params))
        except NotFound:
            body, _ = await self.create(caller, wanted)
            return body

    async def delete(self, caller: Identity | None, name: str) -> None:
        """Remove it, and what the engine has computed ahead of it. Its conversations go on with it. Raises NotFound."""
        require_storable(name, "the name")
        async with self._database.write() as session:
            persona = await queries.find_persona(session, name, for_update=True)
            await queries.delete_persona(session, persona)
            self._audit.record(session, caller, "persona.delete", name)
        await self._changed(name)

    async def purge(self) -> None:
        """Remove what no conversation goes on with any more."""
        async with self._database.write() as session:
            await queries.delete_unused_versions(session)

    async def _checked(self, system_prompt: str) -> str:
        """The same prompt. Raises InvalidInput or PayloadTooLarge where no conversation could begin with it."""
        require_storable(system_prompt, "system_prompt")
        if not system_prompt.strip():
            raise InvalidInput("expected a system_prompt with at least one character that can be seen")
        limit = self._settings.message_max_bytes
        if (size := len(system_prompt.encode())) > limit:
            raise PayloadTooLarge(
                f"the system_prompt has {size} bytes of UTF-8; the limit is {limit}",
                code="content_too_large",
                members={"content_bytes": size, "limit_bytes": limit},
            )
        if self._prefixes is not None and (refusal := await self._prefixes.refusal(system_prompt)) is not None:
            raise refusal
        return system_prompt

    def _params(self, params: ResponseParams) -> dict[str, Any]:
        """Those that are set, as they are stored. Raises InvalidInput where they contradict each other or the settings."""
        sampling_params(params, self._settings)
        stored: dict[str, Any] = msgspec.to_builtins(params)
        return stored

    async def _changed(self, name: str) -> None:
        if self._prefixes is not None:
            await self._prefixes.changed(name)

    async def _body(self, persona: Persona) -> PersonaBody:
        return PersonaBody.of(persona, (await self._states([persona.name]))[persona.name])

    async def _states(self, names: list[str]) -> dict[str, PrefixBody]:
        if self._prefixes is None:
            return dict.fromkeys(names, PrefixBody(PrefixState.COLD))
        return await self._prefixes.states(names)
