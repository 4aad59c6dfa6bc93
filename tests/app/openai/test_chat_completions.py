"""`/v1/chat/completions`: what is answered, whole and in chunks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.accounts.models import UserRole
from engine.types import ModelInfo, Priority, Role
from tests.app.openai.surface import Program, assistant, error, open_program, text_of, user
from tests.support.fake_engine import FakeEngine
from tests.support.scripts import ENDLESS, failing_script, text_script

USAGE_KEYS = {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"}


async def test_a_whole_answer_has_the_shape_of_openais(program: Program) -> None:
    program.will_say(text_script("Hello, Ann."))
    body = await program.complete("Hi")
    assert body["object"] == "chat.completion"
    assert body["id"].startswith("chatcmpl-")
    assert body["model"] == "fake"
    (choice,) = body["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Hello, Ann.", "refusal": None}
    assert (choice["index"], choice["finish_reason"], choice["logprobs"]) == (0, "stop", None)
    usage = body["usage"]
    assert usage.keys() >= USAGE_KEYS
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["kvasir"]["ttft_ms"] >= 0


async def test_chunks_say_who_speaks_then_the_text_then_why_it_ended(program: Program) -> None:
    program.will_say(text_script("Hello, Ann."))
    chunks = await program.stream("Hi")
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert text_of(chunks) == "Hello, Ann."
    assert chunks[-1]["choices"][0] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert not any("usage" in chunk for chunk in chunks)


async def test_usage_comes_as_one_more_chunk_where_it_is_asked_for(program: Program) -> None:
    whole = await program.complete("Hi")
    chunks = await program.stream("Hi", stream_options={"include_usage": True})
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    last = chunks[-1]
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    assert last["usage"]["prompt_tokens_details"]["cached_tokens"] == whole["usage"]["prompt_tokens"] - 1


async def test_an_answer_that_is_cut_says_length(program: Program) -> None:
    program.will_say(ENDLESS, ENDLESS)
    whole = await program.complete(max_tokens=3)
    assert (whole["choices"][0]["finish_reason"], whole["usage"]["completion_tokens"]) == ("length", 3)
    chunks = await program.stream(max_completion_tokens=3)
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"


async def test_every_parameter_reaches_the_engine(program: Program) -> None:
    asked: dict[str, Any] = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.05,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "repetition_penalty": 1.1,
        "seed": -7,
        "min_tokens": 2,
        "ignore_eos": True,
    }
    await program.complete(max_tokens=4, stop="enough", **asked)
    sampling = program.engine.requests[-1].sampling
    assert {name: getattr(sampling, name) for name in asked} == asked
    assert (sampling.max_tokens, sampling.stop) == (4, ("enough",))
    await program.complete(top_k=-1, stop=["a", "b"])
    sampling = program.engine.requests[-1].sampling
    assert (sampling.top_k, sampling.stop) == (0, ("a", "b"))
    assert sampling.max_tokens == program.context.settings.max_answer_tokens


async def test_messages_become_turns_and_a_program_is_served_as_one(program: Program) -> None:
    await program.complete(
        [
            {"role": "developer", "content": "Be brief."},
            user("one"),
            {"role": "assistant", "content": "two", "refusal": None, "annotations": [], "tool_calls": None},
            {"role": "user", "content": [{"type": "text", "text": "th"}, {"type": "text", "text": "ree"}]},
        ]
    )
    request = program.engine.requests[-1]
    assert [(turn.role, turn.text) for turn in request.turns] == [
        (Role.SYSTEM, "Be brief."),
        (Role.USER, "one"),
        (Role.ASSISTANT, "two"),
        (Role.USER, "three"),
    ]
    assert request.priority is Priority.BOT


async def test_values_that_change_nothing_are_taken(program: Program) -> None:
    """Clients send defaults; refusing those would refuse the client."""
    await program.complete(
        n=1,
        logprobs=False,
        top_logprobs=None,
        response_format={"type": "text"},
        tools=[],
        tool_choice="none",
        parallel_tool_calls=True,
        modalities=["text"],
        store=False,
        service_tier="auto",
        logit_bias={},
        stream_options=None,
    )


async def test_an_answer_that_fails_is_an_error_and_in_a_stream_one_too(program: Program) -> None:
    program.will_say(failing_script("Hel", "lo"), failing_script("Hel", "lo"))
    error(await program.try_to_complete(), 500, "request_failed")
    answer = await program.try_to_complete(stream=True)
    assert answer.status_code == 200
    assert '"code":"request_failed"' in answer.text
    assert "[DONE]" not in answer.text
    assert (await program.usage())["failed"] == 2


async def test_a_persona_is_a_model(program: Program) -> None:
    async with program.running.signed_in("root", UserRole.ADMIN) as admin:
        wanted = {"name": "pirate", "system_prompt": "You are a pirate.", "params": {"max_tokens": 2}}
        (await admin.post("/api/v1/personas", json=wanted)).raise_for_status()
    listed = (await program.http.get("/v1/models")).json()
    assert [model["id"] for model in listed["data"]] == ["fake", "persona:pirate"]
    assert listed["object"] == "list"
    one = (await program.http.get("/v1/models/persona:pirate")).json()
    assert one == listed["data"][1]
    body = await program.complete("Who are you?", model="persona:pirate")
    assert (body["model"], body["choices"][0]["finish_reason"]) == ("persona:pirate", "length")
    request = program.engine.requests[-1]
    assert (request.persona, request.turns[0].text) == ("pirate", "You are a pirate.")
    assert body["usage"]["kvasir"]["cached_from"]["prefix"] > 0
    error(await program.try_to_complete(model="persona:parrot"), 404, "model_not_found", "model")
    error(await program.http.get("/v1/models/persona:parrot"), 404, "model_not_found", "model")


async def test_a_name_with_a_slash_is_found_like_any_other(tmp_path: Path, sqlite_url: str) -> None:
    class Named(FakeEngine):
        @property
        def model(self) -> ModelInfo | None:
            model = super().model
            return None if model is None else replace(model, name="org/fake")

    async with open_program(tmp_path, sqlite_url, engine=Named(delay_s=0)) as program:
        for path in ("org/fake", "org%2Ffake"):
            assert (await program.http.get(f"/v1/models/{path}")).json()["id"] == "org/fake"
        assert (await program.complete(model="org/fake"))["model"] == "org/fake"


async def test_a_returning_chat_computes_only_its_new_words(program: Program) -> None:
    """C14: with default settings the second turn of a chat is found (ggml-org/llama.cpp#7185)."""
    program.will_say(text_script("I am well, and you?"))
    first = await program.complete("How are you?")
    answer = first["choices"][0]["message"]["content"]
    second = await program.complete([user("How are you?"), assistant(answer), user("Fine.")])
    # Its ids are those that the model made, so the answer's own KV is found as well.
    assert program.engine.requests[-1].turns[1].token_ids is not None
    said = first["usage"]["prompt_tokens"] + first["usage"]["completion_tokens"]
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] >= said
    changed = await program.complete([user("How are you?"), assistant(answer + " "), user("Fine.")])
    assert program.engine.requests[-1].turns[1].token_ids is None
    assert changed["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("named", [True, False])
async def test_a_session_is_a_lease_and_without_one_there_is_none(program: Program, named: bool) -> None:
    headers = {"X-Kvasir-Session": "case-7"} if named else {}
    await program.complete("one", headers=headers)
    sessions = (await program.engine.snapshot()).sessions
    assert [status.key.name for status in sessions] == (["case-7"] if named else [])
    again = await program.complete("one", headers=headers)
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
