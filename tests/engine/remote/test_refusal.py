"""What servers answer when they do not want to, as recorded from vLLM 0.32, and what it means."""

from __future__ import annotations

import pytest

from engine.remote.refusal import SENTENCE_MAX_CHARS, refusal_of, room_for_answer
from engine.types import FailureCode

TOO_LONG = (
    b'{"error":{"message":"This model\'s maximum context length is 2048 tokens. However, your prompt contains at least 2049 '
    b"input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. "
    b'(parameter=input_tokens, value=2049)","type":"BadRequestError","param":"input_tokens","code":400}}'
)
ANSWER_TOO_LONG = (
    b'{"error":{"message":"max_tokens=5000 cannot be greater than max_model_len=2048. Please request fewer output tokens. '
    b'(parameter=max_tokens, value=5000)","type":"BadRequestError","param":"max_tokens","code":400}}'
)
SGLANG_TOO_LONG = (
    b'{"object":"error","message":"Requested token count exceeds the model\'s maximum context length of 4096 tokens. You '
    b"requested a total of 5012 tokens: 3012 tokens from the input messages and 2000 tokens for the completion. Please "
    b'reduce the number of tokens in the input messages or the completion to fit within the limit.","type":"BadRequest",'
    b'"param":null,"code":400}'
)
NO_SUCH_MODEL = (
    b'{"error":{"message":"The model `nope` does not exist.","type":"NotFoundError","param":"model","code":404}}'
)
PROBLEM = b'{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"the model is loading"}'


@pytest.mark.parametrize(
    ("status", "body", "code", "may_retry"),
    [
        (400, TOO_LONG, FailureCode.CONTEXT_LENGTH_EXCEEDED, False),
        (400, ANSWER_TOO_LONG, FailureCode.CONTEXT_LENGTH_EXCEEDED, False),
        (400, SGLANG_TOO_LONG, FailureCode.CONTEXT_LENGTH_EXCEEDED, False),
        (400, b'{"error":{"message":"temperature must be non-negative"}}', FailureCode.REMOTE_REFUSED, False),
        (401, b'{"error":"Unauthorized"}', FailureCode.REMOTE_REFUSED, False),
        (404, NO_SUCH_MODEL, FailureCode.REMOTE_REFUSED, False),
        (429, b"", FailureCode.REMOTE_OVERLOADED, True),
        (500, b"Internal Server Error", FailureCode.REMOTE_BROKE_OFF, True),
        (502, b"<html>Bad Gateway</html>", FailureCode.REMOTE_UNREACHABLE, True),
        (503, PROBLEM, FailureCode.REMOTE_OVERLOADED, True),
        (504, b"", FailureCode.REMOTE_TIMED_OUT, True),
    ],
)
def test_each_answer_has_its_meaning(status: int, body: bytes, code: FailureCode, may_retry: bool) -> None:
    refusal = refusal_of(status, body, None)
    assert (refusal.code, refusal.may_retry) == (code, may_retry)
    assert str(status) in refusal.message


def test_its_sentence_is_told_short_and_never_as_html() -> None:
    assert "the model is loading" in refusal_of(503, PROBLEM, None).message
    assert "<" not in refusal_of(502, b"<html>Bad Gateway</html>", None).message
    assert len(refusal_of(400, b"x" * 10_000, None).message) < SENTENCE_MAX_CHARS + 100


@pytest.mark.parametrize(("told", "seconds"), [("3", 3.0), ("999", 30.0), ("-1", None), ("soon", None), (None, None)])
def test_how_long_to_wait_is_believed_within_reason(told: str | None, seconds: float | None) -> None:
    assert refusal_of(503, b"", told).retry_after_s == seconds


def test_what_is_left_for_an_answer_is_found_where_both_numbers_are_said() -> None:
    assert room_for_answer(SGLANG_TOO_LONG.decode()) == 4096 - 3012
    assert room_for_answer(ANSWER_TOO_LONG.decode()) is None
    assert room_for_answer("no numbers") is None
