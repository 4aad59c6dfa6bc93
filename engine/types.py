"""The values that cross the border of the engine.

Everything here is plain data: no torch, no asyncio. `app` builds requests out of these types and receives events made of
them; nothing else of the engine is visible outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import NewType

from engine.structure import Constraint, ToolCall, Tools

RequestId = NewType("RequestId", str)


class Role(StrEnum):
    """Who speaks in a turn; the values are those of the chat templates."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    """What a tool that the model called has answered."""


class FinishReason(StrEnum):
    """Why an answer ended. `STOP`: an end token or a stop string. `LENGTH`: `max_tokens` or the context's end."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    FAILED = "failed"


class EngineState(StrEnum):
    """Life of an engine: LOADING → READY → STOPPED, or FAILED from either of the first two.

    One whose model is on another server is LOADING again while that is away; its `failure` then says what is wrong.
    """

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    STOPPED = "stopped"


class NamespaceKind(StrEnum):
    """What a namespace stands for; the kind is part of every key, so one cannot pose as another (vllm-project/vllm#44701)."""

    PUBLIC = "public"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Namespace:
    """The isolation domain of KV: what is computed in one is never found from another.

    Made by the server from who asks. `name` is the user's id, and `part` splits it further (an API key's end customers); both
    may hold any text. The public namespace belongs to personas, has no name, and is looked up only as far as a persona's own
    prefix reaches.
    """

    kind: NamespaceKind
    name: str = ""
    part: str = ""

    @classmethod
    def public(cls) -> Namespace:
        return cls(NamespaceKind.PUBLIC)

    @classmethod
    def user(cls, user_id: str, part: str = "") -> Namespace:
        return cls(NamespaceKind.USER, user_id, part)

    def covers(self, other: Namespace) -> bool:
        """Whether the other is this one, or a part of it."""
        return (self.kind, self.name) == (other.kind, other.name) and self.part in ("", other.part)


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Whose session it is, and which: the live side of one conversation, or of one persona in the public namespace."""

    namespace: Namespace
    name: str


class Priority(Enum):
    """Who goes first when not everybody can: a person who waits, then a program, then work nobody waits for."""

    INTERACTIVE = "interactive"
    BOT = "bot"
    BACKGROUND = "background"


class ContextPolicy(StrEnum):
    """What happens to a conversation that has outgrown the context.

    `ERROR`: PromptTooLong, with the numbers. `DROP_OLDEST_TURNS`: whole turns are left out from the oldest on, never a system
    prompt; `Usage.dropped_turns` says how many. What is stored does not change either way.
    """

    ERROR = "error"
    DROP_OLDEST_TURNS = "drop_oldest_turns"


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation as the engine sees it.

    `token_ids` are the ids the engine itself produced for an earlier answer; they are used verbatim, because text that is
    encoded again may give other ids (ggml-org/llama.cpp#26398). Without them `text` is encoded, and never yields a control
    token. An answer that called tools has `tool_calls`; the turn of a tool names the one it answers.
    """

    role: Role
    text: str
    token_ids: tuple[int, ...] | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen. The defaults are neutral: plain sampling from the model's distribution.

    `temperature` 0 means greedy. `top_k` 0, `top_p` 1 and `min_p` 0 switch their filters off. `max_tokens` None means: until
    the context is full. `stop` are up to 16 strings, none of them empty. Neither an end token nor a stop string ends an answer
    within its first `min_tokens`. `seed` makes the answer repeatable, alone or in company. With `top_logprobs`, 0 to 20, each
    token comes with how likely it was, and so many that were the likeliest.
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
    top_logprobs: int | None = None


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One answer to be made: the whole path of turns up to and including the user's last message.

    `namespace` is whose KV may be reused and kept; without one nothing is looked up and nothing kept. `session` names the lease
    in it, the conversation; a request without one still reuses every page of its namespace. `persona` is the prefix of
    `EngineClient.set_prefix` whose system prompt these turns begin with: only as far as the two agree is the public
    namespace looked up.

    `constraint` is what the text has to be; `tools` are what the model may call instead of, or after, saying something.
    """

    request_id: RequestId
    turns: tuple[Turn, ...]
    sampling: SamplingParams = SamplingParams()
    namespace: Namespace | None = None
    session: str | None = None
    persona: str | None = None
    priority: Priority = Priority.INTERACTIVE
    context_policy: ContextPolicy = ContextPolicy.ERROR
    constraint: Constraint | None = None
    tools: Tools | None = None

    @property
    def session_key(self) -> SessionKey | None:
        """The lease that this request is a turn of."""
        if self.namespace is None or self.session is None:
            return None
        return SessionKey(self.namespace, self.session)


@dataclass(frozen=True, slots=True)
class CachedFrom:
    """Tokens of the prompt that were not computed again, by where their KV came from; `prefix` is a persona's, in any tier.

    A server that computes elsewhere does not say where it had them: all of its are `device`.
    """

    device: int = 0
    host: int = 0
    disk: int = 0
    prefix: int = 0

    @property
    def total(self) -> int:
        return self.device + self.host + self.disk + self.prefix


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer cost; the names are those of the public contract. Times that were never reached are None.

    `dropped_turns` are those the context policy left out of this prompt.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    queue_ms: float | None = None
    prefill_ms: float | None = None
    ttft_ms: float | None = None
    decode_ms: float | None = None
    cached_from: CachedFrom = field(default_factory=CachedFrom)
    dropped_turns: int = 0


class FailureCode(StrEnum):
    """Why a request failed, for programs. `ENGINE_STOPPED`: the engine ended while the request was still there.

    `REMOTE_…`: the server that has the model could not be reached, has no room, took too long, refused what was asked, or broke
    off. `CONTEXT_LENGTH_EXCEEDED`: only that server could tell that the conversation does not fit.
    """

    REQUEST_FAILED = "request_failed"
    STEP_FAILED = "step_failed"
    ENGINE_FAILED = "engine_failed"
    ENGINE_STOPPED = "engine_stopped"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    REMOTE_UNREACHABLE = "remote_unreachable"
    REMOTE_OVERLOADED = "remote_overloaded"
    REMOTE_TIMED_OUT = "remote_timed_out"
    REMOTE_REFUSED = "remote_refused"
    REMOTE_BROKE_OFF = "remote_broke_off"


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
class TokenLogprob:
    """How likely a token was: the natural logarithm of its probability in the model's own distribution, which is the one before
    temperature, filters, penalties and constraints. `text` is its bytes as far as they are characters. `top` are the likeliest,
    the best first."""

    text: str
    bytes: bytes
    logprob: float
    top: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class TextDelta:
    """New text of an answer, never empty, never half a character, and the number of tokens sampled so far.

    `logprobs` are of the tokens that this text begins to show, where they were asked for.
    """

    request_id: RequestId
    text: str
    output_tokens: int
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """More of a call of a tool. The first of each call, and only it, has an id and the name; `arguments`, joined, is JSON.

    `index` counts the calls of an answer from 0; they come one after the other.
    """

    request_id: RequestId
    index: int
    arguments: str
    output_tokens: int
    call_id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of a request, exactly once.

    `token_ids` are the ids whose decoding is the joined text of the deltas, to be given back in a later `Turn`; None when
    there are none (a stop string cut a token in two, tools were called, or the engine does not know them). `logprobs` are of
    tokens at the end that have no text.
    """

    request_id: RequestId
    reason: FinishReason
    usage: Usage
    token_ids: tuple[int, ...] | None = None
    failure: EngineFailure | None = None
    logprobs: tuple[TokenLogprob, ...] = ()


EngineEvent = Queued | PromptProgress | TextDelta | ToolCallDelta | Finished


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a client may know of the model that serves. `has_tools`: its template can tell it of tools, and its calls are read."""

    name: str
    architecture: str
    parameters: int
    context_tokens: int
    vocabulary_size: int
    weights: str
    kernels: str
    fingerprint: str
    has_tools: bool = False


Counts = tuple[tuple[str, int], ...]
"""Numbers by the wire string of a closed set: `(("device", 12), ("host", 3))`. What is left out is 0."""


@dataclass(frozen=True, slots=True)
class EngineStats:
    """One snapshot for `/metrics` and `kvasir doctor`; all counts are of this moment, totals since the start.

    `waiting_tokens` are the prompt tokens of the requests that wait. `reuse` False: every prompt is computed whole, because of a
    setting or of the model. `pages` are (tier, state, pages) with the tiers device, host and disk and the values of `PageState`;
    `tier_bytes` are (tier, used, limit), a limit of 0 being a tier that is off. `sessions` are by `SessionState`, `prefixes`
    by `PrefixState`.

    Of the tokens of prompts (`prefix_tokens_queried_total`, counted once per request, when it is first admitted) those in
    `prefix_tokens_hit` were found; `reprefill_tokens_total` says why the others were computed, by reason: `cold` (never seen),
    `evicted`, `expired`, `version` (another model), `template` (the ids before them changed), `disabled`, `preempted`.
    """

    state: EngineState
    running_requests: int = 0
    waiting_requests: int = 0
    waiting_tokens: int = 0
    pages_total: int = 0
    pages_free: int = 0
    steps_total: int = 0
    prefilled_tokens_total: int = 0
    decoded_tokens_total: int = 0
    drafted_tokens_total: int = 0
    """Tokens of answers that were guessed and computed ahead."""
    accepted_tokens_total: int = 0
    """Those of them that became part of an answer."""
    preemptions_total: int = 0
    waiting_by_priority: Counts = ()
    step_prompt_tokens: int = 0
    """Most prompt tokens that the last step could have computed beside its answers."""
    batch_windows_total: int = 0
    """How often an idle engine waited for company before a first step."""
    last_step_ms: float = 0.0
    threads: int = 0
    reuse: bool = True
    pages: tuple[tuple[str, str, int], ...] = ()
    tier_bytes: tuple[tuple[str, int, int], ...] = ()
    prefix_tokens_queried_total: int = 0
    prefix_tokens_hit: CachedFrom = field(default_factory=CachedFrom)
    reprefill_tokens_total: Counts = ()
    sessions: Counts = ()
    sessions_expired_total: int = 0
    prefixes: Counts = ()
    restore_verify_failures_total: int = 0
    transfers_timed_out_total: int = 0
    stalls_total: int = 0
    """Times the watchdog found work that waited while the engine idled."""
