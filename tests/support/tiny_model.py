"""A model small enough to check by hand: its next token depends on every token before it, read through the block tables.

A wrong slot, block table, position or context length therefore changes the answer, and `reference_ids` says what is right
without any cache. The tokenizer knows bytes, a few longer pieces, and one end token.
"""

from __future__ import annotations

import codecs
from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from engine.assembly import assemble
from engine.chat_layouts import ChatLayout
from engine.config import PAGE_TOKENS, EngineConfig
from engine.core import Engine
from engine.encoded_chats import EncodedChat
from engine.kv_cache import KVCache, KVSpec
from engine.model.batch import ForwardBatch
from engine.model.decoder import DecoderLike
from engine.model.loader import LoadedModel
from engine.structure import Tools
from engine.tool_dialect import ToolDialect
from engine.types import GenerationRequest, ModelInfo, RequestId, Role, SamplingParams, Turn

PIECES = [bytes([value]) for value in range(256)] + [
    b" hello",
    b" world",
    "€".encode()[:2],
    "😀".encode(),
    b"ab",
    b"  ",
]
END = len(PIECES)
VOCABULARY = len(PIECES) + 1
LOGITS = VOCABULARY + 5
"""Like many models, this one has rows in its head that stand for no token."""
SPEC = KVSpec(layers=1, kv_heads=1, head_size=2, dtype=torch.float32)
MODULUS = 1_000_003


class TinyDetokenizer:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        return self._decoder.decode(PIECES[token_id] if token_id < END else b"")

    def flush(self) -> str:
        return self._decoder.decode(b"", final=True)


class TinyTokenizer:
    def __init__(
        self,
        end_token_ids: frozenset[int] = frozenset({END}),
        tool_dialect: ToolDialect | None = None,
        between_ids: Sequence[int] = (),
    ) -> None:
        self.end_token_ids = end_token_ids
        self.tool_dialect = tool_dialect
        self.tool_mark_ids: Mapping[str, int] = {}
        self.vocabulary_size = VOCABULARY
        # None by default, so that an engine in a test does nothing that the test has not asked for.
        self._between_ids = list(between_ids)

    def between_ids(self) -> list[int]:
        return self._between_ids

    def encode_turns(self, turns: Sequence[Turn]) -> list[int]:
        ids: list[int] = []
        for turn in turns:
            ids += turn.role.value[:1].encode()
            ids += turn.token_ids if turn.token_ids is not None else turn.text.encode()
            ids.append(END)
        return [*ids, *b"a"]

    def encode_chat(
        self, turns: Sequence[Turn], before: EncodedChat | None = None, *, tools: Tools | None = None
    ) -> EncodedChat:
        """Always whole."""
        return EncodedChat(tuple(turns), ChatLayout([], []), array("I", self.encode_turns(turns)), array("I"))

    def turn_tokens(self, turn: Turn) -> int:
        return len(turn.text.encode()) if turn.token_ids is None else len(turn.token_ids)

    def prefix_ids(self, turns: Sequence[Turn]) -> list[int]:
        if not turns:
            # So that an engine in a test does nothing that the test has not asked for.
            return []
        return [*self.encode_turns(turns)[:-1], *b"u"]

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(PIECES[token] for token in ids if token < END).decode(errors="replace")

    def encode_answer(self, text: str) -> list[int]:
        return [*text.encode()]

    def bytes_of(self, token_id: int) -> bytes:
        return PIECES[token_id] if token_id < END else b""

    def name_of(self, token_id: int) -> bytes:
        return PIECES[token_id] if token_id < END else b"<end>"

    def detokenizer(self) -> TinyDetokenizer:
        return TinyDetokenizer()

    tool_decode = decode
    tool_detokenizer = detokenizer


class TinyDecoder:
    """Keys hold (token, position) and nothing else; a place that was not written for this sequence is noticed."""

    def __init__(self, logits_of: Callable[[Sequence[int]], torch.Tensor] | None = None) -> None:
        self.logits_of = logits_of or tiny_logits
        self.batches: list[ForwardBatch] = []
        self.before_forward: Callable[[ForwardBatch], None] = lambda batch: None

    def forward(self, batch: ForwardBatch, cache: KVCache) -> torch.Tensor:
        self.batches.append(batch)
        self.before_forward(batch)
        keys = cache.keys[0].view(-1, 2)
        keys[batch.slots] = torch.stack([batch.token_ids, batch.positions], dim=1).to(keys.dtype)
        logits = []
        starts = batch.query_starts.tolist()
        for row in batch.logit_rows.tolist():
            owner = next(index for index in range(len(starts) - 1) if row < starts[index + 1])
            length = int(batch.context_lens[owner]) - (starts[owner + 1] - 1 - row)
            places = torch.arange(length)
            slots = batch.block_tables[owner][places // PAGE_TOKENS] * PAGE_TOKENS + places % PAGE_TOKENS
            tokens, positions = keys[slots].to(torch.int64).unbind(dim=1)
            assert positions.tolist() == list(range(length)), "a slot of this sequence holds something else"
            logits.append(self.logits_of(tokens.tolist()))
        return torch.stack(logits) if logits else torch.empty(0, LOGITS)


def tiny_logits(tokens: Sequence[int]) -> torch.Tensor:
    """Logits that every token and its place decide; those of ids that do not exist are the largest."""
    state = 1
    for token in tokens:
        state = (state * 31 + token + 7) % MODULUS
    logits = ((torch.arange(1, LOGITS + 1) * (state + 1) * 7919) % MODULUS).float() / MODULUS * 8
    logits[VOCABULARY:] = 100.0
    return logits


def repeating_logits(tokens: Sequence[int]) -> torch.Tensor:
    """Those of a model that has few words, and mostly says after two of them what it said the last time."""
    logits = tiny_logits(tokens)
    logits[ord("a") : ord("f")] += 6.0
    for place in range(len(tokens) - 2, 1, -1):
        if tokens[place - 2 : place] == tokens[-2:]:
            logits[tokens[place]] += 5.0
            break
    return logits


def reference_ids(
    prompt_ids: Sequence[int], max_tokens: int, *, stop_at: frozenset[int] = frozenset({END})
) -> list[int]:
    """Greedy ids by the definition: the whole history each time. The end token is included."""
    tokens = list(prompt_ids)
    while len(tokens) < len(prompt_ids) + max_tokens:
        tokens.append(int(tiny_logits(tokens)[:VOCABULARY].argmax()))
        if tokens[-1] in stop_at:
            break
    return tokens[len(prompt_ids) :]


def tiny_engine(
    *,
    num_pages: int = 64,
    context_tokens: int = 512,
    max_step_tokens: int = 32,
    max_running: int = 8,
    clock: Callable[[], float] = lambda: 0.0,
    decoder: DecoderLike | None = None,
    tokenizer: TinyTokenizer | None = None,
    spec: KVSpec = SPEC,
    wake: Callable[[], None] = lambda: None,
    **changes: Any,
) -> Engine:
    """The real engine around the tiny model or another one with its vocabulary, to be stepped by a test."""
    loaded = LoadedModel(decoder or TinyDecoder(), tokenizer or TinyTokenizer(), tiny_info(context_tokens), spec)
    config = tiny_config(
        kv_memory_bytes=num_pages * KVCache.bytes_per_page(spec),
        max_step_tokens=max_step_tokens,
        max_running=max_running,
        **changes,
    )
    engine, _ = assemble(config, loaded, clock=clock, wake=wake, on_progress=lambda stage: None, warm_up=False)
    return engine


def tiny_info(context_tokens: int = 512) -> ModelInfo:
    return ModelInfo("tiny", "TinyForCausalLM", 0, context_tokens, VOCABULARY, "fp32", "reference", "tiny")


def load_tiny_model(config: EngineConfig, on_progress: Callable[[str], None]) -> LoadedModel:
    """What `LocalEngine` takes instead of the loader of real models."""
    on_progress("loading nothing")
    return LoadedModel(TinyDecoder(), TinyTokenizer(), tiny_info(), SPEC)


def tiny_config(**changes: Any) -> EngineConfig:
    return EngineConfig(
        Path("tiny"), "tiny", **{"kv_memory_bytes": 64 * KVCache.bytes_per_page(SPEC), "threads": 1, **changes}
    )


def request(name: str, text: str = "hi", **sampling: object) -> GenerationRequest:
    """One user turn; greedy and 16 tokens long unless said otherwise."""
    params = SamplingParams(**{"temperature": 0.0, "max_tokens": 16, **sampling})
    return GenerationRequest(RequestId(name), (Turn(Role.USER, text),), params)
