"""When a person is asked for by itself, and when the model is silent. Asked by `responses`, inside its own unit of work.

A message of the person moves the conversation before anything else: a resolved one begins anew, and a keyword asks for a person.
"""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from app.clock import Now
from app.conversations.models import Conversation
from app.personas.lookup import handoff_keywords_of
from app.service.changes import Changed, move
from app.service.keywords import Keywords
from app.service.states import Cause, ConversationState, Move, model_answers
from app.settings import Settings


class HandoffPolicy:
    """Owns the rules that the settings and personas give."""

    def __init__(self, settings: Settings, *, now: Now) -> None:
        self._keywords = Keywords(settings.handoff_keywords.split(","))
        self._answers_while_queued = settings.queued_answers
        self.hands_off_failures = settings.handoff_on_failure
        self._now = now

    def model_answers(self, state: str) -> bool:
        """Whether a message gets an answer of the model."""
        return model_answers(ConversationState(state), also_queued=self._answers_while_queued)

    async def person_speaks(self, session: AsyncSession, conversation: Conversation, content: str) -> list[Changed]:
        """What a message of its person does to a conversation."""
        changes = [
            await move(session, conversation, Move.SPEAK, cause=Cause.NEW_MESSAGE, now=self._now()),
        ]
        if conversation.state == ConversationState.BOT:
            keywords = await self._keywords_for(session, conversation)
            if (keyword := keywords.found_in(content)) is not None:
                changes.append(
                    await move(
                        session, conversation, Move.REQUEST, cause=Cause.KEYWORD, now=self._now(), reason=keyword
                    )
                )
        return [change for change in changes if change is not None]

    async def engine_fails(self, session: AsyncSession, conversation: Conversation, reason: str) -> list[Changed]:
        """The model cannot answer: a person is asked for, where the settings say so."""
        if not self.hands_off_failures or conversation.state != ConversationState.BOT:
            return []
        change = await move(
            session, conversation, Move.REQUEST, cause=Cause.ENGINE_FAILURE, now=self._now(), reason=reason
        )
        return [] if change is None else [change]

    async def may_be_silent(
        self, session: AsyncSession, conversation: Conversation, content: str, refusal: str
    ) -> bool:
        """Whether a message that finds no room for an answer, for this reason, is taken without one. Changes nothing."""
        state = ConversationState(conversation.state)
        if state in (ConversationState.QUEUED, ConversationState.HUMAN):
            return not self.model_answers(state)
        if refusal == "engine_failed" and self.hands_off_failures:
            return True
        return (await self._keywords_for(session, conversation)).found_in(content) is not None

    async def _keywords_for(self, session: AsyncSession, conversation: Conversation) -> Keywords:
        """Those of its persona where that has some of its own, else the server's."""
        if conversation.persona is not None:
            own = await handoff_keywords_of(session, conversation.persona)
            if own is not None:
                return Keywords(own)
        return self._keywords
