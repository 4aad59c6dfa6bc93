"""The drain switch: an administrator takes this server out of service without ending it, and puts it back.

Called by routes. While it is drained `/readyz` says 503, so that a load balancer sends new work elsewhere, new answers are
refused (503 `draining`), running ones finish, and everything that is stored can be read. It ends with the process.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from app.accounts.identity import Identity
from app.audit.service import AuditLog
from app.clock import Now
from app.database import Database
from app.operations.health import Readiness


class DrainBody(msgspec.Struct, frozen=True, kw_only=True):
    """Whether this server is drained, since when and by whom, and how many answers have not ended yet. `is_ending`: the process
    was told to end, which nobody can take back."""

    is_drained: bool
    is_ending: bool
    since: datetime | None
    by: str | None
    answers: int


class Drain:
    """Owns who has drained this process, and when."""

    def __init__(
        self, database: Database, audit: AuditLog, readiness: Readiness, alive: Callable[[], int], *, now: Now
    ) -> None:
        self._database = database
        self._audit = audit
        self._readiness = readiness
        self._alive = alive
        self._now = now
        self._since: datetime | None = None
        self._by: str | None = None

    def status(self) -> DrainBody:
        """As it is."""
        return DrainBody(
            is_drained=self._readiness.is_paused,
            is_ending=self._readiness.draining,
            since=self._since,
            by=self._by,
            answers=self._alive(),
        )

    async def begin(self, caller: Identity) -> DrainBody:
        """Take no new answers from now on. Idempotent."""
        if not self._readiness.is_paused:
            await self._record(caller, "server.drain")
            self._readiness.is_paused = True
            self._since, self._by = self._now(), caller.username
        return self.status()

    async def end(self, caller: Identity) -> DrainBody:
        """Take new answers again. Idempotent."""
        if self._readiness.is_paused:
            await self._record(caller, "server.undrain")
            self._readiness.is_paused = False
            self._since, self._by = None, None
        return self.status()

    async def _record(self, caller: Identity, action: str) -> None:
        """Before the act: one that cannot be written down is not done."""
        async with self._database.write() as session:
            self._audit.record(session, caller, action, answers=self._alive())
