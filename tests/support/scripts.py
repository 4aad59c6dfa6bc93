"""What the fake engine's answers will be: scripts, piece by piece."""

from __future__ import annotations

from dataclasses import dataclass

from engine.types import EngineFailure, FailureCode, GenerationRequest, Role


@dataclass(frozen=True)
class Script:
    """What one answer will be: its pieces, one a step; then it ends, fails, or begins again until something ends it.

    `unread`: reading the prompt stops before its last token, and only a cancel ends the answer.
    """

    pieces: tuple[str, ...] = ()
    failure: EngineFailure | None = None
    endless: bool = False
    unread: bool = False


def text_script(text: str, piece_chars: int = 4) -> Script:
    """An answer of exactly this text, cut into pieces of a few characters."""
    return Script(tuple(text[start : start + piece_chars] for start in range(0, len(text), piece_chars)))


def numbered_script(words: int) -> Script:
    """An answer of `words` different words, one a step: " word1", " word2" …"""
    return Script(tuple(f" word{number}" for number in range(1, words + 1)))


def failing_script(*pieces: str, code: str = FailureCode.REQUEST_FAILED, message: str = "It broke.") -> Script:
    """An answer that fails after these pieces."""
    return Script(pieces, failure=EngineFailure(code, message))


ENDLESS = Script((" tick", " tock"), endless=True)
"""An answer that only a cancel, `max_tokens`, a stop string or the context ends."""


UNREAD = Script(unread=True)
"""An answer whose prompt is never read to its end."""


def default_answer(request: GenerationRequest) -> Script:
    """Words of the last user turn: "You said: …"."""
    said = next((turn.text for turn in reversed(request.turns) if turn.role is Role.USER), "")
    return Script(("You", " said", ":", *(f" {word}" for word in said.split()), "."))
