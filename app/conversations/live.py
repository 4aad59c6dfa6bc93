"""What this room asks of whoever holds the answers that are being made right now."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class LiveAnswers(Protocol):
    """The text of running answers, which the database has only about once in two seconds."""

    def snapshot(self, response_id: str) -> tuple[str, int] | None:
        """The text so far and the `seq` of the last event in it, as one consistent pair; None when it does not run here."""


class NoLiveAnswers:
    """Of a process that makes no answers itself: what is stored is all there is."""

    def snapshot(self, response_id: str) -> tuple[str, int] | None:
        return None
