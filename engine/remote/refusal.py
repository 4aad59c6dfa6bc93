"""What can go wrong with a server that is asked for an answer, and whether asking again may help. Pure."""

from __future__ import annotations

import json
import re
from typing import Final

from engine.remote.chunk import error_in
from engine.types import EngineFailure, FailureCode

SENTENCE_MAX_CHARS: Final = 300
"""Of what a server says of itself. A proxy's page of HTML helps nobody."""

RETRY_AFTER_MAX_S: Final = 30.0

_ASK_AGAIN: Final = {
    408: FailureCode.REMOTE_TIMED_OUT,
    425: FailureCode.REMOTE_OVERLOADED,
    429: FailureCode.REMOTE_OVERLOADED,
    500: FailureCode.REMOTE_BROKE_OFF,
    502: FailureCode.REMOTE_UNREACHABLE,
    503: FailureCode.REMOTE_OVERLOADED,
    504: FailureCode.REMOTE_TIMED_OUT,
}
_CONTEXT_WORDS: Final = re.compile(
    r"context.{0,20}(length|window|size)|max_model_len|too (long|many tokens)", re.IGNORECASE
)
_LIMIT: Final = re.compile(r"(?:context length|max_model_len)\D{0,12}(\d+)", re.IGNORECASE)

_PROMPT: Final = re.compile(
    r"(\d+) (?:input tokens|tokens (?:from the input|in the (?:messages|prompt)))", re.IGNORECASE
)


class RemoteRefusal(Exception):
    """An answer that was not made, or not to its end. `may_retry`: while nothing of it was shown."""

    def __init__(
        self, code: FailureCode, message: str, *, may_retry: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.may_retry = may_retry
        self.retry_after_s = retry_after_s

    @property
    def failure(self) -> EngineFailure:
        """As the end of an answer says it."""
        return EngineFailure(self.code, self.message)


def refusal_of(status: int, body: bytes, retry_after: str | None) -> RemoteRefusal:
    """What an HTTP answer that is no success means."""
    sentence = sentence_of(body)
    said = f"{status}: {sentence}" if sentence else str(status)
    if (code := _ASK_AGAIN.get(status)) is not None:
        return RemoteRefusal(
            code,
            f"The server of the model did not take the request ({said}).",
            may_retry=True,
            retry_after_s=_seconds(retry_after),
        )
    if status in (400, 413, 422) and _CONTEXT_WORDS.search(sentence):
        return RemoteRefusal(
            FailureCode.CONTEXT_LENGTH_EXCEEDED, f"The conversation does not fit into the model's context ({said})."
        )
    return RemoteRefusal(FailureCode.REMOTE_REFUSED, f"The server of the model refused the request ({said}).")


def room_for_answer(message: str) -> int | None:
    """The tokens that are left for an answer, where a server says both how many fit and how many the prompt has."""
    limit, prompt = _LIMIT.search(message), _PROMPT.search(message)
    return None if limit is None or prompt is None else int(limit[1]) - int(prompt[1])


def sentence_of(body: bytes) -> str:
    """What a server says went wrong, short; empty where it says nothing that can be read."""
    text = body.decode(errors="replace").strip()
    try:
        decoded = json.loads(text)
    except ValueError:
        return "" if text.startswith("<") else text[:SENTENCE_MAX_CHARS]
    if isinstance(decoded, dict):
        return (error_in(decoded) or str(decoded.get("detail") or ""))[:SENTENCE_MAX_CHARS]
    return ""


def _seconds(retry_after: str | None) -> float | None:
    """A Retry-After in seconds; one that is a date, or nonsense, is as good as none."""
    try:
        seconds = float(retry_after or "")
    except ValueError:
        return None
    return min(seconds, RETRY_AFTER_MAX_S) if seconds >= 0 else None
