"""`Idempotency-Key`: the same request sent twice is done once, and answered the same way both times.

The claim of a key, the thing created and the answer kept are one transaction, so a crash leaves all of them or none, a failure
does not use the key up, and of two at once the second waits for the first. Called inside a service's unit of work:

    async with database.write() as session:
        if (kept := await idempotency.claim(session, request)) is not None:
            return the kept answer
        … create …
        await idempotency.keep(session, request, 201, body, conversation_id)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from litestar.params import HeaderParameter
from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.accounts.models import IdempotencyRecord
from app.clock import Now
from app.database import Database, insert_if_absent
from app.errors import Unprocessable

KEY_MAX_CHARS = 255
KEY_PATTERN = r"^[\x20-\x7e]*$"
IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        min_length=1,
        max_length=KEY_MAX_CHARS,
        pattern=KEY_PATTERN,
        description="Makes it safe to send the same request again: it is done once and answered alike",
    ),
]
REPLAYED_HEADER = {"Idempotent-Replayed": "true"}


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """One request that came with a key. `fingerprint` is the same for the same request only."""

    user_id: str
    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What was answered the first time."""

    status: int
    body: bytes


class Fingerprint:
    """Identifies a request by what it is about and its body, which may come in pieces: the same key on another resource is
    another request."""

    def __init__(self, method: str, path: str) -> None:
        self._hash = hashlib.sha256(b"\0".join((method.encode(), path.encode(), b"")))

    def add(self, piece: bytes) -> None:
        """The next piece of the body."""
        self._hash.update(piece)

    def __str__(self) -> str:
        return self._hash.hexdigest()


def fingerprint(method: str, path: str, body: bytes) -> str:
    """That of a request whose body is at hand."""
    mark = Fingerprint(method, path)
    mark.add(body)
    return str(mark)


class Idempotency:
    """Remembers answers by user and key, for so many hours."""

    def __init__(self, database: Database, hours: int, *, now: Now) -> None:
        self._database = database
        self._lifetime = timedelta(hours=hours)
        self._now = now

    async def claim(self, session: AsyncSession, request: IdempotentRequest | None) -> KeptAnswer | None:
        """The answer given before, or None when this request is to be done now. Without a key it always is.

        Raises Unprocessable when the key came with another request before.
        """
        if request is None:
            return None
        mine = (IdempotencyRecord.user_id == request.user_id, IdempotencyRecord.key == request.key)
        now = self._now()
        await session.execute(
            delete(IdempotencyRecord).where(*mine, IdempotencyRecord.created_at <= now - self._lifetime)
        )
        values = {
            "user_id": request.user_id,
            "key": request.key,
            "request_hash": request.fingerprint,
            "status_code": None,
            "body": None,
            "conversation_id": None,
            "created_at": now,
        }
        if await insert_if_absent(session, IdempotencyRecord, values):
            return None
        record = (await session.scalars(select(IdempotencyRecord).where(*mine))).one()
        if record.request_hash != request.fingerprint:
            raise Unprocessable(
                "this Idempotency-Key came with another request before; take a new one", code="idempotency_key_reused"
            )
        if record.status_code is None or record.body is None:
            raise RuntimeError(f"expected an answer beside the idempotency key of {request.user_id}, found none")
        return KeptAnswer(record.status_code, record.body)

    async def keep(
        self,
        session: AsyncSession,
        request: IdempotentRequest | None,
        status: int,
        body: bytes,
        conversation_id: str | None = None,
    ) -> None:
        """Remember the answer, in the unit of work that claimed the key."""
        if request is None:
            return
        await session.execute(
            update(IdempotencyRecord)
            .where(IdempotencyRecord.user_id == request.user_id, IdempotencyRecord.key == request.key)
            .values(status_code=status, body=body, conversation_id=conversation_id)
        )

    async def forget_conversation(self, session: AsyncSession, conversation_id: str) -> None:
        """Remove what was answered about a conversation, in the unit of work that removes the conversation."""
        await session.execute(delete(IdempotencyRecord).where(IdempotencyRecord.conversation_id == conversation_id))

    async def purge(self) -> None:
        """Remove what is remembered for long enough."""
        async with self._database.write() as session:
            expired = IdempotencyRecord.created_at <= self._now() - self._lifetime
            await session.execute(delete(IdempotencyRecord).where(expired))
