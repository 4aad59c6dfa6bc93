"""What `kvasir doctor` finds: one finding per subject, with the fix where something is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """`WRONG` keeps Kvasir from working, `WARNING` makes it slower or will trouble somebody later."""

    GOOD = "good"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor. `fix` says what to do, in the words a person can follow."""

    subject: str
    verdict: Verdict
    text: str
    fix: str = ""


def good(subject: str, text: str) -> Finding:
    """As it should be."""
    return Finding(subject, Verdict.GOOD, text)


def warning(subject: str, text: str, fix: str) -> Finding:
    """Works, but not as well as it could."""
    return Finding(subject, Verdict.WARNING, text, fix)


def wrong(subject: str, text: str, fix: str) -> Finding:
    """Does not work."""
    return Finding(subject, Verdict.WRONG, text, fix)
