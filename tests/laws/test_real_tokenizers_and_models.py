"""With a model folder and its own tokenizer: a history is never read again, and KV of another model never used."""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from engine.assembly import assemble
from engine.config import EngineConfig
from engine.model.loader import load_model
from engine.prompts import Prompts
from engine.types import (
    EngineFailure,
    EngineState,
    Finished,
    GenerationRequest,
    Namespace,
    RequestId,
    Role,
    SamplingParams,
    Turn,
)
from tests.support.tiny_llama import write_folder

ANNA = Namespace.user("anna")
QUESTION = Turn(
    Role.USER, "What is the capital of France, and what is so good about its old bridges over the river? " * 3
)


class Served:
    """A model folder in an engine that is stepped, with prompts made as a server makes them."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.woken = threading.Event()
        config = EngineConfig(
            folder,
            "served",
            threads=1,
            **{"kv_memory_bytes": 16 << 20, "weights": "fp32", **settings},  # type: ignore[arg-type]
        )
        loaded = load_model(config)
        self.engine, ready = assemble(
            config, loaded, clock=lambda: 0.0, wake=self.woken.set, on_progress=lambda words: None, warm_up=False
        )
        self.engine._scheduler.worth_fetching = lambda pages: True
        self.prompts = Prompts(loaded.tokenizer, ready.max_sequence_tokens)
        self.num_requests = 0

    def submit(self, turns: tuple[Turn, ...], session: str, **sampling: object) -> tuple[RequestId, list[int]]:
        self.num_requests += 1
        name = RequestId(f"{self.num_requests}")
        params = SamplingParams(**{"temperature": 0.0, "max_tokens": 8, **sampling})  # type: ignore[arg-type]
        asked = GenerationRequest(name, turns, params, namespace=ANNA, session=session)
        ids = self.prompts.prompt(asked).ids
        self.engine.submit(asked, list(ids), 0.0)
        return name, ids

    def step(self) -> list[Finished]:
        if self.engine.wait_s() != 0.0 and self.engine.has_transfers:
            assert self.woken.wait(10), "the disk never answered"
            self.woken.clear()
        return [event for event in self.engine.step() if isinstance(event, Finished)]

    def ask(self, *turns: Turn) -> Finished:
        name, _ = self.submit(turns, "chat")
        while True:
            for end in self.step():
                if end.request_id == name:
                    return end

    def reprefilled(self) -> dict[str, int]:
        return dict(self.engine.stats(EngineState.READY, 1).reprefill_tokens_total)


@contextmanager
def served(folder: Path, **settings: object) -> Iterator[Served]:
    one = Served(folder, **settings)
    yield one
    one.engine.stop(EngineFailure("engine_stopped", "It ends."))


def test_a_thousand_hot_answers_and_no_token_of_a_history_is_ever_read_again(tmp_path: Path) -> None:
    """PrimeIntellect-ai/prime-rl#1863, ggml-org/llama.cpp#26398: an answer's text was encoded anew, and gave other tokens."""
    write_folder(tmp_path / "model", max_position_embeddings=2048)
    chance = random.Random(4)
    with served(tmp_path / "model", kv_memory_bytes=64 << 20, max_running=8) as one:
        texts = 0
        for conversation in range(0, 48, 8):
            histories: dict[str, tuple[Turn, ...]] = {f"chat {conversation + place}": () for place in range(8)}
            known: dict[str, list[int]] = {}
            for _ in range(21):
                asked = {}
                for session, history in histories.items():
                    question = Turn(Role.USER, "".join(chance.choices("abc é日 <|im_end|>\n", k=chance.randint(1, 12))))
                    turns = (*history, question)
                    name, ids = one.submit(turns, session, temperature=1.5, max_tokens=chance.randint(1, 12))
                    asked[name] = session, turns, ids
                    assert ids[: len(known.get(session, []))] == known.get(session, [])
                while asked:
                    for end in one.step():
                        session, turns, ids = asked.pop(end.request_id)
                        # The last token of an answer that was cut off was sampled, and its KV never computed.
                        before = len(known.get(session, []))
                        assert end.usage.cached_tokens >= before - 1, "something of the history was read again"
                        assert end.token_ids is not None
                        texts += 1
                        known[session] = [*ids, *end.token_ids]
                        histories[session] = (*turns, Turn(Role.ASSISTANT, "its ids are what counts", end.token_ids))
        assert texts >= 1000
        assert one.reprefilled() == {}


def other_weights(folder: Path) -> dict[str, object]:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.1.self_attn.k_proj.weight"] *= 1.01
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return {}


def other_precision(folder: Path) -> dict[str, object]:
    return {"weights": "bf16"}


def other_rotation(folder: Path) -> dict[str, object]:
    config = json.loads((folder / "config.json").read_text())
    config["rope_parameters"]["rope_theta"] *= 1.5
    (folder / "config.json").write_text(json.dumps(config))
    return {}


def other_tokenizer(folder: Path) -> dict[str, object]:
    document = json.loads((folder / "tokenizer.json").read_text())
    document["model"]["merges"] = document["model"]["merges"][:-1]
    (folder / "tokenizer.json").write_text(json.dumps(document))
    return {}


def other_template(folder: Path) -> dict[str, object]:
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps({**settings, "chat_template": "{# another #}" + settings["chat_template"]})
    )
    return {}


@pytest.mark.parametrize("change", [other_weights, other_precision, other_rotation, other_tokenizer, other_template])
def test_nothing_that_another_model_kept_is_used(tmp_path: Path, change: Callable[[Path], dict[str, object]]) -> None:
    """vllm-project/vllm#30931, vllm-project/vllm#47724: new weights under the same name, and the old entries went on matching."""
    kv, old, new = tmp_path / "kv", tmp_path / "old", tmp_path / "new"
    write_folder(old)
    shutil.copytree(old, new)
    settings = change(new)
    with served(old, disk_folder=kv) as one:
        first = one.ask(QUESTION)
        assert one.ask(QUESTION).usage.cached_tokens == first.usage.input_tokens - 1
    with served(new, **settings) as one:
        expected = one.ask(QUESTION)
    with served(new, disk_folder=kv, **settings) as one:
        end = one.ask(QUESTION)
        # The beginning that every chat has is computed ahead by whichever model is served.
        assert end.usage.cached_tokens == end.usage.cached_from.prefix < 8
        assert end.token_ids == expected.token_ids
        assert set(one.reprefilled()) == {"version"}
    with served(old, disk_folder=kv) as one:
        again = one.ask(QUESTION)
        assert again.usage.cached_from.disk > 0, "the old model's own entries are still its own"
        assert again.token_ids == first.token_ids
