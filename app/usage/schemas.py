"""Bodies of the usage and quota routes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from app.usage.limits import Span, SubjectKind, Unit

Most = Annotated[int, Meta(ge=0, le=2**53)]


class UsageFormat(StrEnum):
    """JSON comes in pages; CSV is one table of everything."""

    JSON = "json"
    CSV = "csv"


class UsageTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over answers that have ended. Cached tokens are part of the input tokens. Tokens include those of titles, which are no
    answers; grouped by `purpose` they are apart."""

    answers: int
    completed: int
    incomplete: int
    cancelled: int
    failed: int
    interrupted: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> UsageTotals:
        return cls(**{name: int(row[name]) for name in cls.__struct_fields__})


class UsageItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One sum. Of what it is grouped by it has a value; `key_id`, `persona` and `model` are empty for answers that came without a
    key, without a persona, and before a model was loaded. `username` is left out where the account is gone."""

    day: date | None = None
    user_id: str | None = None
    username: str | None = None
    key_id: str | None = None
    persona: str | None = None
    model: str | None = None
    purpose: str | None = None
    usage: UsageTotals


class UsageList(msgspec.Struct, frozen=True):
    """`totals` are over everything that the filter leaves, whatever page this is."""

    items: list[UsageItem]
    totals: UsageTotals
    next_cursor: str | None


class UsageCursor(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The last item of a page: what it is grouped by, and its values."""

    groups: list[str]
    values: list[str]


class QuotaBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Limits of one account or API key. null: the server's own (a key has none); 0: no limit."""

    requests_per_minute: Most | None = None
    tokens_per_minute: Most | None = None
    requests_per_day: Most | None = None
    tokens_per_day: Most | None = None
    concurrent_answers: Most | None = None
    sockets: Most | None = None


class LimitBody(msgspec.Struct, frozen=True):
    """A limit that holds, and how much of it is used. `per` and `resets_at` are null where it is about what there is at once."""

    subject: SubjectKind
    unit: Unit
    per: Span | None
    limit: int
    used: int
    resets_at: datetime | None


class LimitList(msgspec.Struct, frozen=True):
    """All of them: `next_cursor` is null."""

    items: list[LimitBody]
    next_cursor: str | None = None
