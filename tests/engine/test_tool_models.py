"""Model folders of each kind that calls tools, through the loader and the whole engine: weights are random, calls are not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.config import EngineConfig
from engine.local import LocalEngine
from engine.structure import Tool, Tools, ToolUse
from engine.tool_dialect import ToolDialect
from engine.types import (
    FinishReason,
    GenerationRequest,
    RequestId,
    Role,
    SamplingParams,
    TextDelta,
    ToolCallDelta,
    Turn,
)
from tests.support.engine_listener import Listener
from tests.support.tiny_llama import tiny_llama
from tests.support.tool_templates import tool_tokenizer, write_tool_tokenizer

PARAMETERS = {
    "type": "object",
    "properties": {"place": {"enum": ["Rome", "Oslo"]}},
    "required": ["place"],
    "additionalProperties": False,
}
WEATHER = Tool("weather", "The weather of a place", json.dumps(PARAMETERS))


@pytest.mark.parametrize("dialect", [*ToolDialect])
async def test_a_forced_call_comes_out_of_a_model_folder(dialect: ToolDialect, tmp_path: Path) -> None:
    size = -(-tool_tokenizer(dialect).vocabulary_size // 8) * 8
    tiny_llama(0, vocab_size=size, max_position_embeddings=2048).save_pretrained(tmp_path)
    write_tool_tokenizer(tmp_path, dialect)
    engine, listener = LocalEngine(EngineConfig(tmp_path, "tiny", kv_memory_bytes=1 << 24)), Listener()
    await engine.start(listener)
    try:
        await engine.wait_ready()
        assert engine.model is not None
        assert engine.model.has_tools
        request = GenerationRequest(
            RequestId("a"),
            (Turn(Role.USER, "How is it?"),),
            SamplingParams(seed=3, max_tokens=200),
            tools=Tools((WEATHER,), ToolUse.REQUIRED, parallel=False),
        )
        await engine.submit(request)
        await engine.submit(replace(request, request_id=RequestId("b"), tools=None))
        end, _ = await listener.end_of("a", "b")
    finally:
        await engine.stop()
    deltas = [event for event in listener.events("a") if isinstance(event, ToolCallDelta)]
    assert end.reason is FinishReason.STOP
    assert [delta.name for delta in deltas if delta.name is not None] == ["weather"]
    assert json.loads("".join(delta.arguments for delta in deltas))["place"] in ("Rome", "Oslo")
    assert not [event for event in listener.events("a") if isinstance(event, TextDelta)]
    assert not [event for event in listener.events("b") if isinstance(event, ToolCallDelta)]
