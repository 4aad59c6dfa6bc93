"""Bodies of the audit log's route."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from app.audit.models import AuditEntry


class ActorBody(msgspec.Struct, frozen=True):
    """Who it was. `id` is null for the command line; `key_id` says that it came with an API key, and with which."""

    id: str | None
    username: str
    key_id: str | None


class AuditBody(msgspec.Struct, frozen=True):
    """One act: who, what (`NOUN.VERB`), on which id, and the facts of it. Never what somebody said."""

    id: str
    created_at: datetime
    actor: ActorBody
    action: str
    target_id: str | None
    details: dict[str, Any]

    @classmethod
    def of(cls, entry: AuditEntry) -> AuditBody:
        actor = ActorBody(entry.actor_id, entry.actor_name, entry.key_id)
        return cls(entry.id, entry.created_at, actor, entry.action, entry.target_id, entry.details)


class AuditList(msgspec.Struct, frozen=True):
    items: list[AuditBody]
    next_cursor: str | None


class AuditCursor(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The last item of a page: when it happened, in microseconds since 1970, and its id."""

    created_us: Annotated[int, Meta(ge=0, le=253_402_300_799_999_999)]
    id: Annotated[str, Meta(max_length=36)]
