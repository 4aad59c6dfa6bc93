"""How many tokens a prompt has, asked or estimated, and which turns go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from engine.errors import PromptTooLong
from engine.remote.prompts import RemotePrompts, estimated_tokens
from engine.types import ContextPolicy, GenerationRequest, RequestId, Role, SamplingParams, Turn

SAID = tuple(Turn(role, "word " * 10) for _ in range(20) for role in (Role.USER, Role.ASSISTANT))
TURNS = (Turn(Role.SYSTEM, "Be brief."), *SAID, Turn(Role.USER, "And now?"))


class Server:
    """Counts words, as far as it wants to."""

    def __init__(self, *, says: bool = True) -> None:
        self.asked: list[int] = []
        self.says = says

    async def count(self, turns: Sequence[Turn]) -> int | None:
        self.asked.append(len(turns))
        return sum(len(turn.text.split()) + 2 for turn in turns) if self.says else None


def request(policy: ContextPolicy = ContextPolicy.ERROR) -> GenerationRequest:
    return GenerationRequest(RequestId("r"), TURNS, SamplingParams(max_tokens=20), context_policy=policy)


async def test_the_same_conversation_is_counted_once() -> None:
    server = Server()
    prompts = RemotePrompts(server.count, 1000)
    first, second = await prompts.prompt(request()), await prompts.prompt(replace(request(), request_id=RequestId("s")))
    assert first == second
    assert first.is_counted
    assert server.asked == [len(TURNS)]


async def test_a_server_that_does_not_count_leaves_an_estimate_and_refuses_itself() -> None:
    server = Server(says=False)
    prompt = await RemotePrompts(server.count, 100).prompt(request())
    assert not prompt.is_counted
    assert prompt.tokens == estimated_tokens(TURNS) > 100
    assert RemotePrompts(server.count, 100).answer_room(prompt, 20) == 20


async def test_what_is_known_not_to_fit_is_refused_with_both_numbers() -> None:
    with pytest.raises(PromptTooLong) as caught:
        await RemotePrompts(Server().count, 300).prompt(request())
    assert (caught.value.prompt_tokens, caught.value.available_tokens) == (488, 299)


async def test_oldest_turns_leave_until_it_fits_and_the_system_prompt_stays() -> None:
    server = Server()
    prompt = await RemotePrompts(server.count, 300).prompt(request(ContextPolicy.DROP_OLDEST_TURNS))
    assert prompt.tokens <= 280
    assert (prompt.turns[0], prompt.turns[-1]) == (TURNS[0], TURNS[-1])
    assert prompt.dropped_turns == len(TURNS) - len(prompt.turns) > 0
    assert prompt.turns[1].role is Role.USER
    assert len(server.asked) <= 4


async def test_what_is_too_long_by_itself_is_refused_under_every_policy() -> None:
    long = replace(request(ContextPolicy.DROP_OLDEST_TURNS), turns=(Turn(Role.USER, "word " * 400),))
    with pytest.raises(PromptTooLong):
        await RemotePrompts(Server().count, 300).prompt(long)


async def test_each_refusal_of_an_estimate_gives_a_shorter_one_until_no_turn_may_leave() -> None:
    prompts = RemotePrompts(Server(says=False).count, 0)
    one = request(ContextPolicy.DROP_OLDEST_TURNS)
    prompt = await prompts.prompt(one)
    lengths = [len(prompt.turns)]
    while (shorter := await prompts.shorter(one, prompt)) is not None:
        prompt = shorter
        lengths.append(len(prompt.turns))
    assert lengths == sorted(set(lengths), reverse=True)
    assert prompt.turns == (TURNS[0], TURNS[-1])
    assert await prompts.shorter(request(), await prompts.prompt(request())) is None


async def test_an_answer_is_asked_for_no_more_than_fits() -> None:
    prompts = RemotePrompts(Server().count, 500)
    prompt = await prompts.prompt(request())
    assert [prompts.answer_room(prompt, wanted) for wanted in (5, 400, None)] == [5, 12, 12]
