"""Writes down what an answer has cost, in the unit of work that ends it. Nothing here commits.

Called by whoever ends answers, once or again: of one answer there is one record, whatever is tried twice.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from app.conversations.models import MessageStatus
from app.conversations.usage import UsageBody
from app.database import insert_if_absent
from app.usage.limits import Spender
from app.usage.models import Purpose, UsageRecord


async def record_answer(
    session: AsyncSession,
    spender: Spender,
    *,
    response_id: str,
    model: str | None,
    status: MessageStatus,
    usage: dict[str, Any],
    ended_at: datetime,
    purpose: Purpose = Purpose.ANSWER,
) -> None:
    """`usage` is the form in which it is stored with the answer; `model` None where none was loaded."""
    cost = UsageBody.of(usage) or UsageBody()
    values = {
        "response_id": response_id,
        "user_id": spender.user_id,
        "key_id": spender.key_id,
        "persona": spender.persona,
        "model": model,
        "day": ended_at.astimezone(UTC).date(),
        "ended_at": ended_at,
        "status": status.value,
        "input_tokens": cost.input_tokens,
        "cached_tokens": cost.cached_tokens,
        "output_tokens": cost.output_tokens,
        "purpose": purpose.value,
    }
    await insert_if_absent(session, UsageRecord, values)
