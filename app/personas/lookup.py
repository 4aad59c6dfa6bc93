"""The persona of a conversation, for rooms that need it inside their own unit of work. Nothing here commits.

A conversation keeps the persona's name, so what is found is the persona as it is now; None where it was deleted meanwhile.
"""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from app.errors import InvalidInput
from app.personas import queries
from app.personas.models import Persona


async def persona_of(session: AsyncSession, conversation_id: str) -> Persona | None:
    """What the answers of this conversation begin with."""
    return await queries.persona_of_conversation(session, conversation_id)


async def require_persona(session: AsyncSession, name: str) -> None:
    """Raises InvalidInput where there is no persona of that name."""
    if await queries.system_prompt(session, name) is None:
        raise InvalidInput(f"there is no persona {name!r}", code="unknown_persona")
