"""What a limit is, and which stretch of time it counts over. Pure.

Time is counted in whole minutes and whole days of UTC, so that everybody can say when a count begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

LIMIT_NAMES = (
    "requests_per_minute",
    "tokens_per_minute",
    "requests_per_day",
    "tokens_per_day",
    "concurrent_answers",
    "sockets",
)


class SubjectKind(StrEnum):
    """Who is limited: an account with everything that belongs to it, or one of its API keys."""

    USER = "user"
    KEY = "key"


class Unit(StrEnum):
    """What is counted. `TOKENS` are those of prompts, cached ones too, and of answers."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    ANSWERS = "answers"
    SOCKETS = "sockets"


class Span(StrEnum):
    """Over how long."""

    MINUTE = "minute"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class Subject:
    """An account or an API key, by its id."""

    kind: SubjectKind
    id: str


@dataclass(frozen=True, slots=True)
class Spender:
    """On whose account an answer is made: the person, the API key they came with, and the persona that speaks."""

    user_id: str
    key_id: str | None = None
    persona: str | None = None

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """Everybody whose limits count, the account first."""
        user = Subject(SubjectKind.USER, self.user_id)
        return (user,) if self.key_id is None else (user, Subject(SubjectKind.KEY, self.key_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one subject may ask for; 0 is no limit."""

    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    requests_per_day: int = 0
    tokens_per_day: int = 0
    concurrent_answers: int = 0
    sockets: int = 0

    def windows(self, subject: Subject, unit: Unit, now: datetime) -> Iterator[tuple[Window, int]]:
        """The windows in which this subject's `unit` has a limit now, each with it."""
        for span in Span:
            if limit := getattr(self, f"{unit}_per_{span}"):
                yield Window.at(subject, unit, span, now), limit


@dataclass(frozen=True, slots=True)
class Window:
    """One count: of `unit`, by `subject`, from `begins_at` until `ends_at`."""

    subject: Subject
    unit: Unit
    span: Span
    begins_at: datetime
    ends_at: datetime

    @classmethod
    def at(cls, subject: Subject, unit: Unit, span: Span, now: datetime) -> Window:
        """The one that this moment is in. `now` is in UTC."""
        begins_at = now.replace(second=0, microsecond=0)
        if span is Span.MINUTE:
            return cls(subject, unit, span, begins_at, begins_at + timedelta(minutes=1))
        begins_at = begins_at.replace(hour=0, minute=0)
        return cls(subject, unit, span, begins_at, begins_at + timedelta(days=1))
