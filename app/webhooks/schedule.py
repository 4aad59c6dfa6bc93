"""When an event is tried again, and when no more. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

GONE = 410


@dataclass(frozen=True, slots=True)
class Schedule:
    """`pauses_s` are those between the tries, so there is one try more than pauses. An endpoint that has taken nothing for
    `disable_after` is told nothing more."""

    pauses_s: Sequence[float]
    disable_after: timedelta

    @classmethod
    def of(cls, pauses: str, disable_days: int) -> Schedule:
        """From the settings. Raises ValueError for what is no list of seconds."""
        pauses_s = tuple(float(text) for text in pauses.split(",") if text.strip())
        if any(not 0 <= pause_s <= 1e9 for pause_s in pauses_s):
            raise ValueError(f"expected seconds, comma separated, got {pauses!r}")
        return cls(pauses_s, timedelta(days=disable_days))

    def next_attempt(self, attempts: int, now: datetime, retry_after_s: int) -> datetime | None:
        """When the next try is after so many; None when that was the last one. What the endpoint asks for comes on top."""
        if attempts > len(self.pauses_s):
            return None
        return now + timedelta(seconds=max(self.pauses_s[attempts - 1], retry_after_s))

    def gives_up(self, failing_since: datetime | None, now: datetime) -> bool:
        """Whether an endpoint has taken nothing for too long."""
        return failing_since is not None and bool(self.disable_after) and now - failing_since >= self.disable_after
