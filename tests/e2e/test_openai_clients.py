"""The official clients of OpenAI, in Python and in JavaScript, against `kvasir serve` with the real model."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import openai
import pytest
from openai import OpenAI
from openai.types.responses import Response, ResponseCompletedEvent, ResponseTextDeltaEvent

from tests.support.models import bundled_model_folder
from tests.support.server_process import REAL, ROOT, ServerProcess, server_process

pytestmark = [pytest.mark.model, pytest.mark.slow]

PATIENCE_S = 120
QUESTION = "Which colours does the flag of France have? Say it in one short sentence, please."


@dataclass
class Served:
    """A server, its model, and a key."""

    server: ServerProcess
    admin: httpx.Client
    key: str
    model: str

    def client(self, **options: object) -> OpenAI:
        # A proxy of the machine's is none of the test's business.
        http = httpx.Client(trust_env=False, timeout=PATIENCE_S)
        return OpenAI(base_url=f"{self.server.url}/v1", api_key=self.key, http_client=http, max_retries=0, **options)  # type: ignore[arg-type]

    def used(self, name: str) -> int:
        count: int = self.admin.get("/api/v1/me/usage").json()["totals"][name]
        return count


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data = tmp_path_factory.mktemp("data")
    (data / "models").symlink_to(bundled_model_folder().parent)
    with server_process(*REAL, "--data", str(data), "--port", "0", KVASIR_TITLES="message") as server:
        with httpx.Client(base_url=server.url, trust_env=False) as admin:
            admin.get(server.sign_in_link)
            admin.headers["Origin"] = server.url
            key = admin.post("/api/v1/keys", json={"name": "clients"}).json()["key"]
            server.wait_ready(PATIENCE_S)
            persona = {"name": "pirate", "system_prompt": "You are a pirate and answer in few words."}
            assert admin.post("/api/v1/personas", json=persona).status_code == 201
            listed = admin.get("/v1/models").json()["data"]
            yield Served(server, admin, key, listed[0]["id"])
        assert server.stop() == 0


@pytest.fixture
def client(served: Served) -> Iterator[OpenAI]:
    with served.client() as client:
        yield client


def test_models_are_the_model_and_the_personas(served: Served, client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [served.model, "persona:pirate"]
    assert client.models.retrieve("persona:pirate").owned_by == "kvasir"


def test_a_chat_goes_on_and_its_history_is_found(served: Served, client: OpenAI) -> None:
    """C14, with default settings and whatever the client sends."""
    first = client.chat.completions.create(
        model=served.model, messages=[{"role": "user", "content": QUESTION}], max_tokens=12, temperature=0
    )
    (choice,) = first.choices
    assert choice.message.content
    assert choice.finish_reason in ("stop", "length")
    assert first.usage is not None
    stream = client.chat.completions.create(
        model=served.model,
        messages=[
            {"role": "user", "content": QUESTION},
            choice.message.to_dict(),  # type: ignore[list-item]  # as clients do
            {"role": "user", "content": "And that of Italy?"},
        ],
        max_tokens=12,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
        extra_headers={"X-Kvasir-Session": "flags"},
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    cached = usage.prompt_tokens_details.cached_tokens
    assert cached is not None
    # Whole pages of 16 tokens, and of the answer all but its last.
    assert first.usage.total_tokens - 17 <= cached < usage.prompt_tokens
    sessions = served.admin.get("/api/v1/admin/sessions").json()["items"]
    assert "flags" in [session["name"] for session in sessions]


def test_a_seed_makes_an_answer_repeatable_and_a_persona_speaks(served: Served, client: OpenAI) -> None:
    def say() -> str | None:
        answer = client.chat.completions.create(
            model="persona:pirate",
            messages=[{"role": "user", "content": "Hello"}],
            max_completion_tokens=8,
            temperature=1,
            seed=7,
            presence_penalty=0.5,
            frequency_penalty=0.5,
            extra_body={"min_tokens": 8, "ignore_eos": True, "top_k": 40, "min_p": 0.01},
        )
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 8
        return answer.choices[0].message.content

    assert say() == say()


def test_an_answer_is_the_json_that_a_schema_asks_for_and_says_how_likely_it_was(
    served: Served, client: OpenAI
) -> None:
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "green"]}, "number": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["colour", "number"],
        "additionalProperties": False,
    }
    answer = client.chat.completions.create(
        model=served.model,
        messages=[{"role": "user", "content": "Choose a colour and a number."}],
        max_tokens=60,
        logprobs=True,
        top_logprobs=2,
        response_format={"type": "json_schema", "json_schema": {"name": "choice", "schema": schema, "strict": True}},
    )
    (choice,) = answer.choices
    found = json.loads(choice.message.content or "")
    assert found["colour"] in ("red", "green")
    assert 1 <= found["number"] <= 9
    assert choice.logprobs is not None
    entries = choice.logprobs.content or []
    assert b"".join(bytes(entry.bytes or []) for entry in entries).decode().startswith(choice.message.content or "?")
    assert all(entry.logprob <= 0 and len(entry.top_logprobs) == 2 for entry in entries)
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            model=served.model,
            messages=[{"role": "user", "content": "Hi"}],
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "fruit"}}},
        )
    assert (refused.value.code, refused.value.param) == ("invalid_schema", "response_format")


def test_errors_are_the_clients_own(served: Served, client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "Hi"}])
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=served.model, messages=[{"role": "user", "content": "Hi"}], n=3)
    assert (refused.value.code, refused.value.param) == ("unsupported_parameter", "n")
    with pytest.raises(openai.BadRequestError) as too_long:
        client.chat.completions.create(model=served.model, messages=[{"role": "user", "content": "word " * 9000}])
    assert too_long.value.code == "context_length_exceeded"
    with served.client() as stranger:
        stranger.api_key = "kv_nobody"
        with pytest.raises(openai.AuthenticationError):
            stranger.models.list()


def test_who_closes_a_stream_cancels_the_answer(served: Served, client: OpenAI) -> None:
    before = served.used("cancelled")
    stream = client.chat.completions.create(
        model=served.model,
        messages=[{"role": "user", "content": "Count for ever."}],
        stream=True,
        max_tokens=4000,
        extra_body={"ignore_eos": True},
    )
    assert next(iter(stream)).choices[0].delta.role == "assistant"
    stream.close()
    served.server._wait_for(lambda: served.used("cancelled") == before + 1, "the end of the answer", PATIENCE_S)


def test_responses_go_on_from_each_other(served: Served, client: OpenAI) -> None:
    first = client.responses.create(
        model=served.model, input=QUESTION, instructions="Be brief.", max_output_tokens=12, temperature=0
    )
    assert first.status in ("completed", "incomplete")
    assert first.output_text
    with client.responses.stream(
        model=served.model, input="And Italy?", previous_response_id=first.id, max_output_tokens=8, temperature=0
    ) as stream:
        events = list(stream)
    text = "".join(event.delta for event in events if isinstance(event, ResponseTextDeltaEvent))
    second: Response = events[-1].response  # type: ignore[union-attr]
    assert isinstance(events[-1], ResponseCompletedEvent) or events[-1].type == "response.incomplete"
    assert second.output_text == text != ""
    assert second.usage is not None
    assert client.responses.retrieve(second.id).output_text == text
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model=served.model, input="And Spain?", previous_response_id=second.id)


def test_the_javascript_client_gets_the_same(served: Served) -> None:
    environment = {**os.environ, "BASE_URL": f"{served.server.url}/v1", "API_KEY": served.key, "MODEL": served.model}
    script = Path(__file__).with_name("openai_client.mjs")
    done = subprocess.run(
        ["node", str(script)], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["models"] == [served.model, "persona:pirate"]
    assert found["streamed"] == found["whole"] != ""
    assert found["cached"] > 0
    assert found["refused"] == {"status": 400, "code": "unsupported_parameter", "param": "n"}
    assert found["response"] == found["events"] != ""
    assert found["kept"] == found["response"]
