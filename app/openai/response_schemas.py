"""Bodies of `/v1/responses`, in OpenAI's words. See `app.openai.schemas` for what is declared and what is refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from app.openai.logprobs import TokenLogprobBody
from app.openai.messages import MESSAGES_MAX, ContentPart
from app.openai.models import ID_MAX_CHARS
from app.openai.response_tools import FunctionCallItem, ResponseTool, ToolChoice
from app.openai.schemas import SampledRequest, Tokens
from app.openai.structure import TOOLS_MAX, FunctionName
from app.text import STORABLE_PATTERN

MetadataKey = Annotated[str, Meta(max_length=64, pattern=STORABLE_PATTERN)]
MetadataText = Annotated[str, Meta(max_length=512, pattern=STORABLE_PATTERN)]


class InputItem(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One message; or with `type` function_call a call that was made, and with function_call_output what came of it. What an
    answer of ours comes with (`id`, `status`, `phase`) is taken back and means nothing."""

    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: str | list[ContentPart] | None = None
    type: str = "message"
    id: str | None = None
    status: str | None = None
    phase: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | list[ContentPart] | None = None


Items = Annotated[list[InputItem], Meta(min_length=1, max_length=MESSAGES_MAX)]


class TextFormat(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """`text`: anything. `json_object`: one JSON object. `json_schema`: JSON that the schema accepts."""

    type: Literal["text", "json_object", "json_schema"]
    name: FunctionName | None = None
    schema: dict[str, Any] | None = None
    description: str | None = None
    strict: bool | None = None


class TextConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """What the text of an answer has to be."""

    format: TextFormat = msgspec.field(default_factory=lambda: TextFormat("text"))
    verbosity: Literal["medium"] | None = None


class ResponseCreate(SampledRequest, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What is asked for. `previous_response_id` goes on from a response that was stored; `instructions` are for this one only."""

    model: Annotated[str, Meta(min_length=1)]
    input: str | Items
    instructions: str | None = None
    previous_response_id: Annotated[str, Meta(max_length=ID_MAX_CHARS)] | None = None
    store: bool | None = None
    stream: bool | None = None
    max_output_tokens: Tokens | None = None
    metadata: Annotated[dict[MetadataKey, MetadataText], Meta(max_length=16)] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    text: TextConfig | None = None
    include: list[Literal["message.output_text.logprobs"]] | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    tools: Annotated[list[ResponseTool], Meta(max_length=TOOLS_MAX)] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    # Refused unless they say what happens anyway.
    background: Any = None
    conversation: Any = None
    context_management: Any = None
    max_tool_calls: Any = None
    moderation: Any = None
    prompt: Any = None
    prompt_cache_key: Any = None
    prompt_cache_retention: Any = None
    reasoning: Any = None
    safety_identifier: Any = None
    service_tier: Any = None
    stream_options: Any = None


class OutputText(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["output_text"] = "output_text"
    text: str
    annotations: list[Any] = []
    logprobs: list[TokenLogprobBody] = []


class OutputMessage(msgspec.Struct, frozen=True, kw_only=True, tag="message"):
    """What was answered."""

    id: str
    status: str
    role: Literal["assistant"] = "assistant"
    content: list[OutputText]


class InputTokensDetails(msgspec.Struct, frozen=True):
    cached_tokens: int
    cache_write_tokens: int = 0


class OutputTokensDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int = 0


class ResponseUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What it cost; see CompletionUsage for `kvasir`."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails = OutputTokensDetails()
    total_tokens: int
    kvasir: dict[str, Any] = {}


class ResponseFailure(msgspec.Struct, frozen=True):
    """`code` is one of OpenAI's."""

    code: str
    message: str


class NoReasoning(msgspec.Struct, frozen=True):
    effort: None = None
    summary: None = None


class ResponseObject(msgspec.Struct, frozen=True, kw_only=True):
    """A response while it is made and when it has ended."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: str = "in_progress"
    background: bool = False
    error: ResponseFailure | None = None
    incomplete_details: dict[str, str] | None = None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: None = None
    metadata: dict[str, str]
    model: str
    output: list[OutputMessage | FunctionCallItem] = []
    parallel_tool_calls: bool
    previous_response_id: str | None
    prompt_cache_key: None = None
    reasoning: NoReasoning = NoReasoning()
    safety_identifier: None = None
    service_tier: str = "default"
    store: bool
    temperature: float
    text: TextConfig
    tool_choice: str | ToolChoice
    tools: list[ResponseTool]
    top_logprobs: int = 0
    top_p: float
    truncation: str
    usage: ResponseUsage | None = None
    user: str | None


class ResponseDeleted(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["response"] = "response"
    deleted: bool = True
