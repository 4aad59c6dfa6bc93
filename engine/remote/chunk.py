"""One piece of a streamed chat completion, read without trusting it. Pure.

data: {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": null}], "usage": {…}}
data: {"choices": [], "usage": {"prompt_tokens": 39, "completion_tokens": 8, "prompt_tokens_details": {"cached_tokens": 16}}}
data: {"error": {"message": "…", "code": 500}}
data: [DONE]
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from engine.types import FinishReason, TokenLogprob

DONE: Final = "[DONE]"

FINISH_REASONS: Final = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    # A provider's filter ended it; what was shown stands, and there is no more.
    "content_filter": FinishReason.STOP,
}


@dataclass(frozen=True, slots=True)
class RemoteUsage:
    """What the server counted. `cached_tokens` None: it does not say."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """`finish` is the server's own word, None before the end; `error` is its sentence where it gave up."""

    text: str = ""
    finish: str | None = None
    usage: RemoteUsage | None = None
    error: str | None = None
    logprobs: tuple[TokenLogprob, ...] = ()


class NoChunk(ValueError):
    """What came is no piece of a chat completion."""

    def __init__(self, data: str) -> None:
        super().__init__(f"expected a piece of a chat completion, got {data[:200]!r}")


def read_chunk(data: str) -> Chunk:
    """What one `data:` line says. Raises NoChunk."""
    try:
        body = json.loads(data)
    except ValueError:
        raise NoChunk(data) from None
    if not isinstance(body, dict):
        raise NoChunk(data)
    if (error := error_in(body)) is not None:
        return Chunk(error=error)
    if not isinstance(choices := body.get("choices"), list):
        raise NoChunk(data)
    choice = choices[0] if choices else {}
    if not isinstance(choice, dict) or not isinstance(delta := choice.get("delta") or {}, dict):
        raise NoChunk(data)
    text, finish = delta.get("content"), choice.get("finish_reason")
    return Chunk(
        text=text if isinstance(text, str) else "",
        finish=finish if isinstance(finish, str) else None,
        usage=_usage(body.get("usage")),
        logprobs=_logprobs(choice.get("logprobs")),
    )


def error_in(body: dict[str, Any]) -> str | None:
    """The sentence of an error body: OpenAI's and vLLM's `{"error": {"message"}}`, or SGLang's flat one."""
    error = body.get("error")
    if isinstance(error, dict):
        return str(error.get("message") or error)
    if isinstance(error, str):
        return error
    return str(body.get("message")) if body.get("object") == "error" else None


def _logprobs(body: object) -> tuple[TokenLogprob, ...]:
    content = body.get("content") if isinstance(body, dict) else None
    return tuple(map(_logprob, content)) if isinstance(content, list) else ()


def _logprob(body: object) -> TokenLogprob:
    entry = body if isinstance(body, dict) else {}
    text, spelled, logprob, top = (entry.get(name) for name in ("token", "bytes", "logprob", "top_logprobs"))
    text = text if isinstance(text, str) else ""
    is_spelled = isinstance(spelled, list) and all(isinstance(byte, int) and 0 <= byte < 256 for byte in spelled)
    return TokenLogprob(
        text,
        bytes(spelled) if is_spelled and spelled else text.encode(errors="replace"),
        float(logprob) if isinstance(logprob, int | float) else float("-inf"),
        tuple(map(_logprob, top)) if isinstance(top, list) else (),
    )


def _usage(body: object) -> RemoteUsage | None:
    if not isinstance(body, dict):
        return None
    details = body.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return RemoteUsage(
        _count(body.get("prompt_tokens")),
        _count(body.get("completion_tokens")),
        _count(cached) if cached is not None else None,
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0
