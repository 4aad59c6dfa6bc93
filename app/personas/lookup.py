"""The persona of a conversation, for rooms that need it inside their own unit of work. Nothing here commits.

A conversation keeps the version it began with, whatever becomes of the persona.
"""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from app.errors import InvalidInput
from app.personas import queries
from app.personas.models import PersonaVersion


async def persona_of(session: AsyncSession, conversation_id: str) -> PersonaVersion | None:
    """What the answers of this conversation begin with."""
    return await queries.version_of_conversation(session, conversation_id)


async def handoff_keywords_of(session: AsyncSession, name: str) -> list[str] | None:
    """Words with which people ask for a person, where the persona has some of its own; none at all where the list is empty."""
    return await queries.handoff_keywords(session, name)


async def current_version_id(session: AsyncSession, name: str) -> str:
    """What a new conversation of this persona begins with. Raises InvalidInput where there is no persona of that name."""
    if (version_id := await queries.current_version_id(session, name)) is None:
        raise InvalidInput(f"there is no persona {name!r}", code="unknown_persona")
    return version_id
