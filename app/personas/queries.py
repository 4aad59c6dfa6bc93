"""SQL of personas. Every function runs inside the caller's unit of work and commits nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from app.conversations.models import Conversation
from app.errors import NotFound
from app.personas.models import Persona


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


async def find_persona(session: AsyncSession, name: str, *, for_update: bool = False) -> Persona:
    """The persona of that name. Raises NotFound."""
    statement = select(Persona).where(Persona.name == name)
    if for_update:
        statement = statement.with_for_update()
    if (persona := await session.scalar(statement)) is None:
        raise NotFound("there is no such persona")
    return persona


async def persona_of_conversation(session: AsyncSession, conversation_id: str) -> Persona | None:
    """The persona whose name the conversation has; None where it has none, or where that is gone."""
    statement = (
        select(Persona)
        .join(Conversation, Conversation.persona == Persona.name)
        .where(Conversation.id == conversation_id)
    )
    return await session.scalar(statement)


async def system_prompt(session: AsyncSession, name: str) -> str | None:
    """What it says; None where there is no persona of that name."""
    return await session.scalar(select(Persona.system_prompt).where(Persona.name == name))


async def delete_persona(session: AsyncSession, persona: Persona) -> None:
    """Remove it. Conversations keep its name."""
    await session.execute(delete(Persona).where(Persona.name == persona.name))
