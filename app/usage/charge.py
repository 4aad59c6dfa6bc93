"""What one answer is charged with while it is made: a request when it begins, its prompt as soon as that is counted, and the rest
at its end.

Made by `QuotaService.charging`. An answer that is not accepted after all gives everything back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from app.clock import Now
from app.errors import TooManyRequests
from app.usage.counters import Counters
from app.usage.limits import Limits, Spender, Subject, Unit, Window

RETRY_ANSWERS_S = 2
"""Nobody knows when an answer ends; most do within seconds."""


class QuotaExceeded(TooManyRequests):
    """A limit of an account or a key is reached. `members` say which, how much was used, and when it begins anew."""

    code = "quota_exceeded"

    def __init__(self, subject: Subject, limit_name: str, limit: int, used: int, *, resets_at: datetime, now: datetime):
        wait_s = max(1, -(-(resets_at - now).total_seconds() // 1))
        whose = "this account" if subject.kind == "user" else "this API key"
        super().__init__(
            f"{whose} has used {used} of {limit} {limit_name.replace('_', ' ')}; it begins anew at {resets_at.isoformat()}",
            retry_after_s=int(wait_s),
            members={
                "limit_name": limit_name,
                "limit": limit,
                "used": used,
                "subject": subject.kind.value,
                "resets_at": resets_at.isoformat(),
            },
        )
        self.limit_name = limit_name


class TooManyAnswers(TooManyRequests):
    """As many answers of an account or a key are being made as may be at once."""

    code = "too_many_answers"

    def __init__(self, subject: Subject, limit: int, running: int):
        whose = "this account" if subject.kind == "user" else "this API key"
        super().__init__(
            f"{running} answers of {whose} are not done; at most {limit} may be",
            retry_after_s=RETRY_ANSWERS_S,
            members={
                "limit_name": "concurrent_answers",
                "limit": limit,
                "used": running,
                "subject": subject.kind.value,
            },
        )
        self.limit_name = "concurrent_answers"


class Charge:
    """Owns what was taken for one answer. `refusal` says which limit was in its way from the start; nothing was taken then."""

    def __init__(
        self,
        spender: Spender,
        limits: Mapping[Subject, Limits],
        counters: Counters,
        now: Now,
        ended: Callable[[], None],
    ) -> None:
        self.spender = spender
        self.refusal: QuotaExceeded | TooManyAnswers | None = None
        self._limits = limits
        self._counters = counters
        self._now = now
        self._ended = ended
        self._requests: dict[Window, int] = {}
        self._prompt: dict[Window, int] = {}
        self._prompt_tokens = 0
        self._is_kept = False

    async def take_request(self) -> None:
        """One more request, in every window that limits them; `refusal` where one is full."""
        windows = self.windows(Unit.REQUESTS)
        full = await self._counters.take(windows, 1)
        if full is None:
            self._requests = windows
        else:
            self.refusal = self._exceeded(windows, *full)

    async def take_prompt(self, tokens: int) -> QuotaExceeded | None:
        """The tokens of its prompt: what they are is known before anything is computed. Why they cannot be had."""
        windows = self.windows(Unit.TOKENS)
        full = await self._counters.take(windows, tokens)
        if full is not None:
            return self._exceeded(windows, *full)
        self._prompt, self._prompt_tokens = windows, tokens
        return None

    def keep(self) -> None:
        """The answer is accepted: whoever ends it calls `settle`."""
        self._is_kept = True

    async def settle(self, input_tokens: int, output_tokens: int) -> None:
        """The answer has ended, and has cost this."""
        self._ended()
        await self._counters.add(self.windows(Unit.TOKENS), input_tokens + output_tokens - self._prompt_tokens)

    async def refund_unless_kept(self) -> None:
        """It was refused or a repetition, so it costs nothing."""
        if not self._is_kept:
            self._ended()
            await self._counters.add(self._requests, -1)
            await self._counters.add(self._prompt, -self._prompt_tokens)

    def windows(self, unit: Unit) -> dict[Window, int]:
        """Every window that limits this answer in this unit now, with its limit."""
        now = self._now()
        return {
            window: limit
            for subject, limits in self._limits.items()
            for window, limit in limits.windows(subject, unit, now)
        }

    def _exceeded(self, windows: Mapping[Window, int], full: Window, used: int) -> QuotaExceeded:
        return QuotaExceeded(
            full.subject,
            f"{full.unit}_per_{full.span}",
            windows[full],
            used,
            resets_at=full.ends_at,
            now=self._now(),
        )
