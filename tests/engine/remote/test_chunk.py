"""What servers stream, as recorded, and what must not be believed."""

from __future__ import annotations

import json

import pytest

from engine.remote.chunk import Chunk, NoChunk, RemoteUsage, read_chunk

VLLM_TEXT = (
    '{"id":"chatcmpl-befb","object":"chat.completion.chunk","created":1796007214,"model":"smol","choices":[{"index":0,'
    '"delta":{"content":"ïve"},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":{"prompt_tokens":39,'
    '"total_tokens":41,"completion_tokens":2,"completion_tokens_details":null}}'
)
VLLM_LAST = (
    '{"id":"chatcmpl-befb","object":"chat.completion.chunk","created":1796007214,"model":"smol","choices":[],"usage":'
    '{"prompt_tokens":39,"total_tokens":47,"completion_tokens":8,"prompt_tokens_details":{"cached_tokens":16,'
    '"created_cache_tokens":0}},"system_fingerprint":"vllm-0.32.0-f15deb84"}'
)
SGLANG_END = (
    '{"id":"4c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":null,'
    '"content":null,"reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":"length",'
    '"matched_stop":null}],"usage":null}'
)


def test_recorded_pieces_are_read() -> None:
    assert read_chunk(VLLM_TEXT) == Chunk("ïve", usage=RemoteUsage(39, 2))
    assert read_chunk(VLLM_LAST) == Chunk(usage=RemoteUsage(39, 8, 16))
    assert read_chunk(SGLANG_END) == Chunk(finish="length")


def test_how_likely_tokens_were_is_read() -> None:
    top = {"token": "Hi", "logprob": -0.5, "bytes": [72, 105]}
    content = [{**top, "top_logprobs": [top, {"token": "x", "logprob": None}]}]
    body = {"choices": [{"delta": {"content": "Hi"}, "logprobs": {"content": content}, "finish_reason": None}]}
    (logprob,) = read_chunk(json.dumps(body)).logprobs
    assert (logprob.text, logprob.bytes, logprob.logprob) == ("Hi", b"Hi", -0.5)
    assert [other.text for other in logprob.top] == ["Hi", "x"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"error": {"message": "EngineCore encountered an issue.", "code": 500}}, "EngineCore encountered an issue."),
        ({"error": {"type": "x"}}, "{'type': 'x'}"),
        ({"error": "no more"}, "no more"),
        ({"object": "error", "message": "too many", "code": 503}, "too many"),
    ],
)
def test_an_error_in_the_stream_is_one(body: dict[str, object], sentence: str) -> None:
    assert read_chunk(json.dumps(body)) == Chunk(error=sentence)


@pytest.mark.parametrize(
    "data", ["", "hello", "[1]", "{}", '{"choices": 1}', '{"choices": ["x"]}', '{"choices": [{"delta": 1}]}']
)
def test_what_is_no_piece_is_refused(data: str) -> None:
    with pytest.raises(NoChunk):
        read_chunk(data)


def test_numbers_that_are_none_count_as_nothing() -> None:
    usage = {"prompt_tokens": "many", "completion_tokens": -4, "prompt_tokens_details": {"cached_tokens": None}}
    assert read_chunk(json.dumps({"choices": [], "usage": usage})).usage == RemoteUsage(0, 0)
