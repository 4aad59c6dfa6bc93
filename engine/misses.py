"""Why tokens are computed that had been computed before, and how many: every miss carries a reason.

Used by `engine.sessions`, which knows what was committed. It remembers keys and counts of sessions that have gone, never
their tokens, and only so many of them. Pure.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from engine.common_length import common_length
from engine.types import SessionKey

DEPARTED_MAX: Final = 4096
"""Sessions that have gone and are remembered: about a megabyte. Of older ones a miss is COLD."""


class Departure(StrEnum):
    """Why a session has gone. EXPIRED: its time was over. EVICTED: no tier had room for it, or by hand. VERSION: it was made by
    another model. DROPPED: somebody asked that it be forgotten, so this is not remembered either."""

    EXPIRED = "expired"
    EVICTED = "evicted"
    VERSION = "version"
    DROPPED = "dropped"


class MissReason(StrEnum):
    """Why a prompt was not found as far as it might have been. The first that holds:

    DISABLED: reuse is switched off.
    EVICTED: the session has committed tokens that the prompt begins with, and their pages are gone; or all of it was evicted.
    TEMPLATE: the prompt leaves the committed tokens where both go on. That is a template that does not append, or a
        conversation that was edited: the engine cannot tell one from the other.
    EXPIRED, VERSION: the session has gone for that reason.
    COLD: none was known.
    """

    COLD = "cold"
    EVICTED = "evicted"
    EXPIRED = "expired"
    VERSION = "version"
    TEMPLATE = "template"
    DISABLED = "disabled"


_AFTER_DEPARTURE: Final = {
    Departure.EXPIRED: MissReason.EXPIRED,
    Departure.EVICTED: MissReason.EVICTED,
    Departure.VERSION: MissReason.VERSION,
}


class Misses:
    """Owns the counters of misses and the memory of sessions that have gone."""

    def __init__(self, departed_max: int = DEPARTED_MAX) -> None:
        self._departed: OrderedDict[SessionKey, tuple[MissReason, int]] = OrderedDict()
        self._departed_max = departed_max
        self.reprefilled_tokens: Counter[MissReason] = Counter()
        """Tokens that were computed again although they had been committed once. COLD has none; TEMPLATE counts the committed
        tokens that were left behind, which after an edit is more than what is the same."""
        self.departures: Counter[Departure] = Counter()

    def depart(self, key: SessionKey, reason: Departure, num_tokens: int) -> None:
        """A session with so many committed tokens has gone, or was found on disk and cannot be used."""
        self.departures[reason] += 1
        self._departed.pop(key, None)
        if reason is Departure.DROPPED or not num_tokens:
            return
        self._departed[key] = _AFTER_DEPARTURE[reason], num_tokens
        while len(self._departed) > self._departed_max:
            self._departed.popitem(last=False)

    def came_back(self, key: SessionKey) -> None:
        """The session has committed tokens again; what was before does not matter any more."""
        self._departed.pop(key, None)

    def record(
        self,
        key: SessionKey | None,
        committed: Sequence[int],
        num_committed: int,
        prompt: Sequence[int],
        matched: int,
        *,
        disabled: bool,
    ) -> MissReason | None:
        """Judge and count one prompt of which `matched` tokens are reused; None where nothing was missed.

        `committed` is empty although `num_committed` is not where only the count is known, after a restart. The last token of
        a prompt is always computed, so it is never missed.
        """
        usable = len(prompt) - 1
        reason: MissReason | None = None
        lost = 0
        if num_committed:
            common = common_length(committed, prompt) if committed else num_committed
            reachable, end = min(common, usable), min(num_committed, usable)
            if matched < reachable:
                reason, lost = MissReason.EVICTED, reachable - matched
            elif matched < end:
                reason, lost = MissReason.TEMPLATE, end - matched
        elif key is not None and key in self._departed:
            departed, num_tokens = self._departed[key]
            lost = max(0, min(num_tokens, usable) - matched)
            reason = departed if lost else None
        elif matched < usable:
            reason = MissReason.COLD
        if disabled and matched < usable:
            reason = MissReason.DISABLED
        if reason is not None and lost:
            self.reprefilled_tokens[reason] += lost
        return reason
