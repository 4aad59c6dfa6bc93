"""SQL of personas. Every function runs inside the caller's unit of work and commits nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, exists, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from app.conversations.models import Conversation
from app.errors import NotFound
from app.personas.models import Persona, PersonaVersion


async def personas_page(session: AsyncSession, *, limit: int, before: tuple[datetime, str] | None) -> Sequence[Persona]:
    """At most `limit` of them, the newest first, from behind `before` on."""
    place = tuple_(Persona.created_at, Persona.name)
    statement = select(Persona).order_by(Persona.created_at.desc(), Persona.name.desc()).limit(limit)
    if before is not None:
        statement = statement.where(place < before)
    return (await session.scalars(statement)).all()


async def every_name(session: AsyncSession) -> list[str]:
    """The names of all of them."""
    return list((await session.scalars(select(Persona.name).order_by(Persona.name))).all())


async def every_name_and_date(session: AsyncSession) -> list[tuple[str, datetime]]:
    """The names of all of them, each with when it was made."""
    rows = await session.execute(select(Persona.name, Persona.created_at).order_by(Persona.name))
    return [(name, created_at) for name, created_at in rows]


async def current_version(session: AsyncSession, name: str) -> PersonaVersion | None:
    """What a persona says now; None where there is none of that name."""
    statement = select(PersonaVersion).join(Persona, Persona.version_id == PersonaVersion.id)
    return await session.scalar(statement.where(Persona.name == name))


async def find_persona(session: AsyncSession, name: str, *, for_update: bool = False) -> Persona:
    """The persona of that name. Raises NotFound."""
    statement = select(Persona).where(Persona.name == name)
    if for_update:
        statement = statement.with_for_update(of=Persona)
    if (persona := await session.scalar(statement)) is None:
        raise NotFound("there is no such persona")
    return persona


async def version_of_conversation(session: AsyncSession, conversation_id: str) -> PersonaVersion | None:
    """What the conversation began with; None where it began without a persona."""
    statement = (
        select(PersonaVersion)
        .join(Conversation, Conversation.persona_version_id == PersonaVersion.id)
        .where(Conversation.id == conversation_id)
    )
    return await session.scalar(statement)


async def current_version_id(session: AsyncSession, name: str) -> str | None:
    """The version that a new conversation begins with; it stays the current one until the unit of work ends."""
    statement = select(Persona.version_id).where(Persona.name == name)
    return await session.scalar(statement.with_for_update(read=True))


async def versions_page(
    session: AsyncSession, name: str, *, limit: int, before: tuple[datetime, str] | None
) -> list[tuple[PersonaVersion, int]]:
    """At most `limit` versions of that name, the newest first, each with how many conversations go on with it."""
    users = select(func.count()).where(Conversation.persona_version_id == PersonaVersion.id).scalar_subquery()
    statement = select(PersonaVersion, users).where(PersonaVersion.name == name)
    if before is not None:
        statement = statement.where(tuple_(PersonaVersion.created_at, PersonaVersion.id) < before)
    statement = statement.order_by(PersonaVersion.created_at.desc(), PersonaVersion.id.desc()).limit(limit)
    return [(version, conversations) for version, conversations in (await session.execute(statement)).all()]


async def handoff_keywords(session: AsyncSession, name: str) -> list[str] | None:
    """Those of the persona of that name; None where it has none of its own, or is not there any more."""
    return await session.scalar(select(Persona.handoff_keywords).where(Persona.name == name))


async def delete_unused_versions(session: AsyncSession) -> None:
    """Remove versions that are not current and that no conversation goes on with."""
    is_current = exists().where(Persona.version_id == PersonaVersion.id)
    is_used = exists().where(Conversation.persona_version_id == PersonaVersion.id)
    await session.execute(delete(PersonaVersion).where(~is_current, ~is_used))


async def system_prompt(session: AsyncSession, name: str) -> str | None:
    """What it says; None where there is no persona of that name."""
    statement = select(PersonaVersion.system_prompt).join(Persona, Persona.version_id == PersonaVersion.id)
    return await session.scalar(statement.where(Persona.name == name))


async def delete_persona(session: AsyncSession, persona: Persona) -> None:
    """Remove it. Its conversations keep the version they began with."""
    await session.execute(delete(Persona).where(Persona.name == persona.name))
