"""Bodies of `/v1/chat/completions` and `/v1/models`, in OpenAI's words.

A field of OpenAI's that is not supported is declared all the same: with a value that changes nothing it is taken, with any other
refused by its name (`app.openai.sampling`). One that is not declared is refused as unknown.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.openai.messages import Messages
from app.openai.structure import ChatTools, NamedTool, ResponseFormat

TOKENS_MAX = 1_000_000
USER_MAX_CHARS = 512

Tokens = Annotated[int, Meta(ge=1, le=TOKENS_MAX)]
StopText = Annotated[str, Meta(min_length=1, max_length=256)]


class SampledRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How an answer is sampled, and for whom it is; the same wherever an answer is asked for. `top_k`, `min_p`,
    `repetition_penalty`, `min_tokens` and `ignore_eos` are extensions, named as others name them. `user` says for which customer
    of the key it is: customers share nothing that is cached."""

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1, le=TOKENS_MAX, description="0 or -1: all")] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=10)] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    stop: StopText | Annotated[list[StopText], Meta(max_length=16)] | None = None
    min_tokens: Annotated[int, Meta(ge=0, le=TOKENS_MAX)] | None = None
    ignore_eos: bool | None = None
    user: Annotated[str, Meta(max_length=USER_MAX_CHARS)] | None = None


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`include_usage`: one more chunk before the end, with the usage of the whole answer."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class ChatCompletionCreate(SampledRequest, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What is asked for."""

    model: Annotated[str, Meta(min_length=1)]
    messages: Messages
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    response_format: ResponseFormat | None = None
    tools: ChatTools | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    # Refused unless they say what happens anyway.
    n: Any = None
    logit_bias: Any = None
    functions: Any = None
    function_call: Any = None
    modalities: Any = None
    audio: Any = None
    prediction: Any = None
    reasoning_effort: Any = None
    verbosity: Any = None
    service_tier: Any = None
    store: Any = None
    metadata: Any = None
    web_search_options: Any = None
    moderation: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None
    prompt_cache_retention: Any = None


class PromptTokensDetails(msgspec.Struct, frozen=True):
    cached_tokens: Annotated[int, Meta(description="Tokens of the prompt that were not computed again")]
    audio_tokens: int = 0


class CompletionTokensDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int = 0
    audio_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class CompletionUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What it cost. `kvasir` has the times and where cached tokens came from, as the usage of the native API does."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails = CompletionTokensDetails()
    kvasir: dict[str, Any] = {}


class FunctionCallBody(msgspec.Struct, frozen=True):
    """`arguments` is JSON as text."""

    name: str
    arguments: str


class ToolCallBody(msgspec.Struct, frozen=True):
    id: str
    function: FunctionCallBody
    type: str = "function"


class AnswerMessage(msgspec.Struct, frozen=True):
    """`content` is null where nothing was said but tools were called."""

    role: str
    content: str | None
    refusal: None = None
    tool_calls: list[ToolCallBody] | UnsetType = UNSET


class Choice(msgspec.Struct, frozen=True):
    index: int
    message: AnswerMessage
    logprobs: dict[str, Any] | None
    finish_reason: str


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer."""

    id: str
    object: str = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: CompletionUsage
    system_fingerprint: str


class OpenAIModel(msgspec.Struct, frozen=True, kw_only=True):
    """One model. `max_model_len` are the tokens that prompt and answer may have together."""

    id: str
    object: str = "model"
    created: int
    owned_by: str = "kvasir"
    max_model_len: int


class OpenAIModelList(msgspec.Struct, frozen=True, kw_only=True):
    object: str = "list"
    data: list[OpenAIModel]
