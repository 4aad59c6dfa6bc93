"""Who is whose turn: one answer at a time per conversation, in the order of acceptance. Pure.

Used by the dispatcher. A line exists as long as somebody stands in it.
"""

from __future__ import annotations

from app.responses.answer import Answer


class Lines:
    """Owns the lines of all conversations."""

    def __init__(self) -> None:
        self._lines: dict[str, list[Answer]] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def of(self, conversation_id: str) -> list[Answer]:
        """Those who stand in line, the first one's turn it is."""
        return list(self._lines.get(conversation_id, ()))

    def join(self, answer: Answer) -> int:
        """Stand at the end; how many are in front."""
        line = self._lines.setdefault(answer.identity.conversation_id, [])
        line.append(answer)
        return len(line) - 1

    def leave(self, answer: Answer) -> list[Answer]:
        """Leave, from wherever; those who are left."""
        line = self._lines[answer.identity.conversation_id]
        line.remove(answer)
        if not line:
            del self._lines[answer.identity.conversation_id]
        return list(line)
