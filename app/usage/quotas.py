"""How much somebody may ask for, and whether they still may: limits of the settings, of an account and of an API key.

Called before an answer is accepted and before a socket is. Limits of an account hold for all that is done in its name, those of a
key beside them. Answers and sockets at a time are counted by this server process, the rest by `counters`. A limit is never
exceeded by more than what the answers that run cost: prompts are counted before they are computed, answers when they end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncSession

from app.clock import Now
from app.database import Database
from app.settings import Settings
from app.usage import queries
from app.usage.charge import Charge, TooManyAnswers
from app.usage.counters import Counters
from app.usage.limits import LIMIT_NAMES, Limits, Spender, Subject, SubjectKind, Unit, Window
from app.usage.models import Quota


class QuotaService:
    """Owns which answers are being made for whom."""

    def __init__(self, database: Database, settings: Settings, counters: Counters, *, now: Now) -> None:
        self._database = database
        self._defaults = {
            SubjectKind.USER: Limits(**{name: getattr(settings, f"quota_{name}") for name in LIMIT_NAMES}),
            # A key has what its account has, unless it is given less.
            SubjectKind.KEY: Limits(),
        }
        self._counters = counters
        self._now = now
        self._running: dict[Subject, set[Charge]] = {}

    def sizes(self) -> dict[str, int]:
        """How many entries each registry has; all zero when no answer is alive."""
        return {"charges": sum(map(len, self._running.values()))}

    @asynccontextmanager
    async def charging(self, spender: Spender) -> AsyncIterator[Charge]:
        """Take a request for one answer. Unless the charge is kept, it is given back when the block ends."""
        limits = await self.limits(spender.subjects)
        charge = Charge(spender, limits, self._counters, self._now, lambda: self._end(charge))
        try:
            if (refusal := self._begin(charge, limits)) is not None:
                charge.refusal = refusal
            else:
                await self._seed(window for unit in (Unit.REQUESTS, Unit.TOKENS) for window in charge.windows(unit))
                await charge.take_request()
            yield charge
        finally:
            await charge.refund_unless_kept()

    async def limits(self, subjects: Iterable[Subject]) -> dict[Subject, Limits]:
        """What holds for each of them: its own limits, else the server's."""
        subjects = list(subjects)
        async with self._database.read() as session:
            quotas = await queries.quotas_of(session, subjects)
        return {subject: self._merged(subject.kind, quotas.get(subject)) for subject in subjects}

    async def give(self, session: AsyncSession, subject: Subject, limits: Mapping[str, int]) -> None:
        """Limits of its own for somebody who is made in the caller's unit of work; what is left out is the server's. With none at
        all it has none any more."""
        values = {name: limits.get(name) for name in LIMIT_NAMES}
        await queries.set_quota(session, subject, values, self._now())

    async def used(self, subject: Subject, limits: Limits) -> list[tuple[Window, int, int]]:
        """Every window that limits a subject now, with its limit and its count."""
        now = self._now()
        windows = [pair for unit in (Unit.REQUESTS, Unit.TOKENS) for pair in limits.windows(subject, unit, now)]
        await self._seed(window for window, _ in windows)
        return [(window, limit, await self._counters.used(window)) for window, limit in windows]

    def running(self, subject: Subject) -> int:
        """Answers of this subject that this process makes."""
        return len(self._running.get(subject, ()))

    def _begin(self, charge: Charge, limits: dict[Subject, Limits]) -> TooManyAnswers | None:
        for subject in charge.spender.subjects:
            most = limits[subject].concurrent_answers
            if most and (running := self.running(subject)) >= most:
                return TooManyAnswers(subject, most, running)
        for subject in charge.spender.subjects:
            self._running.setdefault(subject, set()).add(charge)
        return None

    def _end(self, charge: Charge) -> None:
        for subject in charge.spender.subjects:
            if (running := self._running.get(subject)) is not None:
                running.discard(charge)
                if not running:
                    del self._running[subject]

    async def _seed(self, windows: Iterable[Window]) -> None:
        unseeded = await self._counters.unseeded(list(windows))
        if unseeded:
            async with self._database.read() as session:
                used = [(window, await queries.used_in(session, window)) for window in unseeded]
            for window, count in used:
                await self._counters.seed(window, count)

    def _merged(self, kind: SubjectKind, quota: Quota | None) -> Limits:
        defaults = self._defaults[kind]
        if quota is None:
            return defaults
        own = {name: value for name in LIMIT_NAMES if (value := getattr(quota, name)) is not None}
        return Limits(**{name: own.get(name, getattr(defaults, name)) for name in LIMIT_NAMES})
