"""The values that cross the border of the engine.

Everything here is plain data: no torch, no asyncio. `app` builds requests out of these types and receives events made of
them; nothing else of the engine is visible outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

RequestId = NewType("RequestId", str)


class Role(StrEnum):
    """Who speaks in a turn; the values are those of the chat templates."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class FinishReason(StrEnum):
    """Why an answer ended. `STOP`: an end token or a stop string. `LENGTH`: `max_tokens` or the context's end."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    FAILED = "failed"


class EngineState(StrEnum):
    """Life of an engine: LOADING → READY → STOPPED, or FAILED from either of the first two."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation as the engine sees it.

    `token_ids` are the ids the engine itself produced for an earlier answer; they are used verbatim, because text that is
    encoded again may give other ids (ggml-org/llama.cpp#26398). Without them `text` is encoded, and never yields a control
    token.
    """

    role: Role
    text: str
    token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen. The defaults are neutral: plain sampling from the model's distribution.

    `temperature` 0 means greedy. `top_k` 0, `top_p` 1 and `min_p` 0 switch their filters off. `max_tokens` None means: until
    the context is full. `stop` are up to 16 strings, none of them empty. Neither an end token nor a stop string ends an answer
    within its first `min_tokens`. `seed` makes the answer repeatable, alone or in company.
    """

    max_tokens: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    min_tokens: int = 0
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One answer to be made: the whole path of turns up to and including the user's last message."""

    request_id: RequestId
    turns: tuple[Turn, ...]
    sampling: SamplingParams = SamplingParams()


@dataclass(frozen=True, slots=True)
class CachedFrom:
    """Tokens of the prompt that were not computed again, by where their KV came from."""

    device: int = 0
    host: int = 0
    disk: int = 0
    prefix: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer cost; the names are those of the public contract. Times that were never reached are None."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    queue_ms: float | None = None
    prefill_ms: float | None = None
    ttft_ms: float | None = None
    decode_ms: float | None = None
    cached_from: CachedFrom = field(default_factory=CachedFrom)


class FailureCode(StrEnum):
    """Why a request failed, for programs. `ENGINE_STOPPED`: the engine ended while the request was still there."""

    REQUEST_FAILED = "request_failed"
    STEP_FAILED = "step_failed"
    ENGINE_FAILED = "engine_failed"
    ENGINE_STOPPED = "engine_stopped"


@dataclass(frozen=True, slots=True)
class EngineFailure:
    """Why a request failed: a stable `code`, one of `FailureCode`, and one sentence for people."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Queued:
    """The request waits; `position` 1 is the next to start. Sent on arrival when it cannot start, and when it changes."""

    request_id: RequestId
    position: int


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """`done_tokens` of the prompt's `total_tokens` are in the KV cache, `cached_tokens` of them without computing."""

    request_id: RequestId
    done_tokens: int
    total_tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """New text of an answer, never empty, never half a character, and the number of tokens sampled so far."""

    request_id: RequestId
    text: str
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of a request, exactly once.

    `token_ids` are the ids whose decoding is the joined text of the deltas, to be given back in a later `Turn`; None when
    there are none (a stop string cut a token in two, or the engine does not know them).
    """

    request_id: RequestId
    reason: FinishReason
    usage: Usage
    token_ids: tuple[int, ...] | None = None
    failure: EngineFailure | None = None


EngineEvent = Queued | PromptProgress | TextDelta | Finished


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a client may know of the model that serves."""

    name: str
    architecture: str
    parameters: int
    context_tokens: int
    vocabulary_size: int
    weights: str
    kernels: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class EngineStats:
    """One snapshot for `/metrics` and `kvasir doctor`; all counts are of this moment, totals since the start."""

    state: EngineState
    running_requests: int = 0
    waiting_requests: int = 0
    pages_total: int = 0
    pages_free: int = 0
    steps_total: int = 0
    prefilled_tokens_total: int = 0
    decoded_tokens_total: int = 0
    preemptions_total: int = 0
    last_step_ms: float = 0.0
    threads: int = 0
