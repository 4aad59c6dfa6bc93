"""What people and administrators see of usage, and what administrators allow. Called by routes."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, timedelta
from typing import Any

import msgspec

from app.accounts.identity import Identity
from app.audit.service import AuditLog
from app.clock import Now
from app.database import Database
from app.errors import InvalidInput
from app.pagination import decode_cursor, encode_cursor, invalid_cursor
from app.text import require_storable
from app.usage import queries
from app.usage.limits import LIMIT_NAMES, Limits, Spender, Subject, Unit
from app.usage.queries import GROUPS, UsageFilter
from app.usage.quotas import QuotaService
from app.usage.schemas import (
    LimitBody,
    LimitList,
    QuotaBody,
    UsageCursor,
    UsageItem,
    UsageList,
    UsageTotals,
)

DAYS_DEFAULT = 30
CSV_ROWS_PER_PIECE = 500
COLUMN_OF = {
    "day": "day",
    "user": "user_id",
    "key": "key_id",
    "persona": "persona",
    "model": "model",
    "purpose": "purpose",
}

Usernames = Callable[[Collection[str]], Awaitable[Mapping[str, str]]]
"""The names of those of these accounts that are there."""


class UsageService:
    """Owns nothing: records are written where answers end, limits hold where they are accepted."""

    def __init__(
        self, database: Database, quotas: QuotaService, audit: AuditLog, usernames: Usernames, *, now: Now
    ) -> None:
        self._database = database
        self._quotas = quotas
        self._audit = audit
        self._usernames = usernames
        self._now = now

    def filter(
        self,
        *,
        since: date | None,
        until: date | None,
        user_id: str | None = None,
        key_id: str | None = None,
        persona: str | None = None,
        model: str | None = None,
    ) -> UsageFilter:
        """Which answers; without days those of the last thirty. Raises InvalidInput."""
        until = until or self._now().astimezone(UTC).date()
        since = since or max(date.min + timedelta(days=DAYS_DEFAULT), until) - timedelta(days=DAYS_DEFAULT - 1)
        if since > until:
            raise InvalidInput(f"expected since not to be after until, got {since} and {until}")
        for name, text in (("user_id", user_id), ("key_id", key_id), ("persona", persona), ("model", model)):
            require_storable(text or "", name)
        return UsageFilter(since=since, until=until, user_id=user_id, key_id=key_id, persona=persona, model=model)

    async def page(self, wanted: UsageFilter, group_by: str, *, limit: int, cursor: str | None) -> UsageList:
        """Sums by what `group_by` names, the newest day and the last name first. Raises InvalidInput."""
        groups = _groups(group_by)
        before = None if cursor is None else _place(cursor, groups)
        async with self._database.read() as session:
            rows = await queries.usage_page(session, wanted, groups, limit=limit + 1, before=before)
            totals = await queries.usage_totals(session, wanted)
        next_cursor = None
        if len(rows) > limit:
            next_cursor = encode_cursor(UsageCursor(groups, [str(rows[limit - 1][name]) for name in groups]))
        items = await self._items(rows[:limit], groups)
        return UsageList(items, UsageTotals.of(totals), next_cursor)

    async def table(self, wanted: UsageFilter, group_by: str) -> AsyncIterator[bytes]:
        """Everything as CSV, in pieces. Raises InvalidInput before the first."""
        groups = _groups(group_by)
        columns = [COLUMN_OF[name] for name in groups]
        if "user" in groups:
            columns.insert(columns.index("user_id") + 1, "username")
        return self._table(wanted, groups, columns)

    async def _table(self, wanted: UsageFilter, groups: list[str], columns: list[str]) -> AsyncIterator[bytes]:
        yield _csv([[*columns, *UsageTotals.__struct_fields__]])
        before: Sequence[object] | None = None
        while True:
            async with self._database.read() as session:
                rows = await queries.usage_page(session, wanted, groups, limit=CSV_ROWS_PER_PIECE, before=before)
            items = await self._items(rows, groups)
            if items:
                yield _csv(
                    [
                        [*(_cell(getattr(item, column)) for column in columns), *msgspec.structs.astuple(item.usage)]
                        for item in items
                    ]
                )
            if len(rows) < CSV_ROWS_PER_PIECE:
                return
            before = [rows[-1][name] for name in groups]

    async def limits(self, spender: Spender) -> LimitList:
        """What holds for the caller now, and how much of it is used."""
        found = await self._quotas.limits(spender.subjects)
        items = []
        for subject, limits in found.items():
            items += [
                LimitBody(subject.kind, window.unit, window.span, limit, used, window.ends_at)
                for window, limit, used in await self._quotas.used(subject, limits)
            ]
            items += self._at_once(subject, limits)
        return LimitList(items)

    async def quota(self, subject: Subject) -> QuotaBody:
        """The limits of its own that an account or a key has."""
        async with self._database.read() as session:
            quota = (await queries.quotas_of(session, [subject])).get(subject)
        return QuotaBody() if quota is None else QuotaBody(**{name: getattr(quota, name) for name in LIMIT_NAMES})

    async def set_quota(self, caller: Identity, subject: Subject, wanted: QuotaBody) -> QuotaBody:
        """Replace them. They hold from the next answer on."""
        limits = msgspec.structs.asdict(wanted)
        async with self._database.write() as session:
            await queries.set_quota(session, subject, limits, self._now())
            self._audit.record(session, caller, f"{subject.kind}.set_quota", subject.id, **limits)
        return wanted

    def _at_once(self, subject: Subject, limits: Limits) -> list[LimitBody]:
        if not limits.concurrent_answers:
            return []
        running = self._quotas.running(subject)
        return [LimitBody(subject.kind, Unit.ANSWERS, None, limits.concurrent_answers, running, None)]

    async def _items(self, rows: Sequence[Mapping[str, Any]], groups: Sequence[str]) -> list[UsageItem]:
        names = await self._usernames({row["user"] for row in rows}) if "user" in groups else {}
        return [
            UsageItem(
                **{COLUMN_OF[name]: row[name] for name in groups},
                username=names.get(row["user"]) if "user" in groups else None,
                usage=UsageTotals.of(row),
            )
            for row in rows
        ]


def only(wanted: UsageFilter, user_id: str) -> UsageFilter:
    """The same, of one person."""
    return replace(wanted, user_id=user_id)


def _groups(group_by: str) -> list[str]:
    groups = group_by.split(",")
    if len(set(groups)) != len(groups) or not set(groups) <= GROUPS.keys():
        raise InvalidInput(f"expected group_by to be some of {', '.join(GROUPS)}, each once, got {group_by[:80]!r}")
    return groups


def _place(cursor: str, groups: list[str]) -> list[object]:
    """Where a page begins. Raises InvalidInput for a cursor of another list."""
    place = decode_cursor(cursor, UsageCursor)
    if place.groups != groups or len(place.values) != len(groups):
        raise invalid_cursor()
    try:
        return [
            date.fromisoformat(value) if name == "day" else require_storable(value, "cursor")
            for name, value in zip(groups, place.values, strict=True)
        ]
    except ValueError:
        raise invalid_cursor() from None


def _csv(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()


def _cell(value: object) -> object:
    """A spreadsheet takes a text that begins like a formula for one; names of models and personas are others' words."""
    text = "" if value is None else str(value)
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
