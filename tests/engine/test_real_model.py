"""The whole local engine with the bundled model: what a person asks, and what load does to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.config import EngineConfig
from engine.local import LocalEngine
from engine.tokenizer import ChatTokenizer
from engine.types import Finished, FinishReason, GenerationRequest, RequestId, Role, SamplingParams, Turn
from tests.contracts.test_engine_client import Listener
from tests.support.models import bundled_model_folder

pytestmark = [pytest.mark.model, pytest.mark.slow]

QUESTIONS = (
    "What is the capital of France?",
    "Write a haiku about rain.",
    "Schreibe einen Satz über Äpfel und Birnen.",
    "Use some emoji 😀 to describe a cat.",
)


def question(name: str, text: str, **sampling: object) -> GenerationRequest:
    params = SamplingParams(**{"temperature": 0.0, "max_tokens": 24, **sampling})  # type: ignore[arg-type]
    return GenerationRequest(RequestId(name), (Turn(Role.USER, text),), params)


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
async def engine(listener: Listener) -> AsyncIterator[LocalEngine]:
    engine = LocalEngine(EngineConfig(bundled_model_folder(), "bundled", max_step_tokens=64))
    await engine.start(listener)
    await engine.wait_ready()
    yield engine
    await engine.stop()


async def test_it_knows_the_capital_of_france(engine: LocalEngine, listener: Listener) -> None:
    await engine.submit(question("a", QUESTIONS[0]))
    (end,) = await listener.end_of("a")
    assert "Paris" in listener.text("a")
    assert end.reason in (FinishReason.STOP, FinishReason.LENGTH)
    assert end.usage.ttft_ms is not None


async def test_answers_together_are_the_answers_alone(engine: LocalEngine, listener: Listener) -> None:
    """Greedy in float32, long and short prompts, joining while others run; one is cancelled in the middle."""
    long = "Summarise: " + "the river runs past the old stone bridge and the garden. " * 12
    texts = [*QUESTIONS, long]
    alone: list[Finished] = []
    for number, text in enumerate(texts):
        await engine.submit(question(f"alone{number}", text))
        alone += await listener.end_of(f"alone{number}")
    await engine.submit(question("cancelled", "Count to a thousand.", max_tokens=None))
    for number, text in enumerate(texts):
        await engine.submit(question(f"together{number}", text))
        await asyncio.sleep(0)
    engine.cancel(RequestId("cancelled"))
    together = await listener.end_of(*(f"together{number}" for number in range(len(texts))))
    assert [end.token_ids for end in together] == [end.token_ids for end in alone]
    assert (await listener.end_of("cancelled"))[0].reason is FinishReason.CANCELLED
    tokenizer = load_tokenizer()
    for number, end in enumerate(together):
        assert end.token_ids is not None
        assert listener.text(f"together{number}") == tokenizer.decode(end.token_ids)


async def test_a_hot_and_seeded_answer_adds_up_and_can_be_repeated(engine: LocalEngine, listener: Listener) -> None:
    for name in ("once", "again"):
        await engine.submit(question(name, QUESTIONS[3], temperature=1.5, seed=11, ignore_eos=True, top_p=0.98))
    once, again = await listener.end_of("once", "again")
    assert once.token_ids is not None
    assert once.token_ids == again.token_ids
    assert listener.text("once") == load_tokenizer().decode(once.token_ids)


def load_tokenizer() -> ChatTokenizer:
    return ChatTokenizer.from_folder(bundled_model_folder())
