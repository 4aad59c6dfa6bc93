"""A prompt that was counted is handed to the very request it was counted for, and to no other."""

from __future__ import annotations

from dataclasses import replace

from engine.checked_prompts import CheckedPrompts
from engine.prompts import Prompt
from engine.types import GenerationRequest, RequestId, Role, Turn

ONE = GenerationRequest(RequestId("a"), (Turn(Role.USER, "hello"),))


def test_it_is_taken_once() -> None:
    checked, prompt = CheckedPrompts(), Prompt([1, 2, 3])
    checked.keep(ONE, prompt)
    assert checked.take(ONE) is prompt
    assert checked.take(ONE) is None
    assert checked.num_tokens == 0


def test_another_request_of_the_same_id_gets_nothing() -> None:
    checked = CheckedPrompts()
    checked.keep(ONE, Prompt([1, 2, 3]))
    assert checked.take(replace(ONE)) is None
    assert len(checked) == 0


def test_the_oldest_leave_where_there_is_no_room() -> None:
    checked = CheckedPrompts(max_tokens=5)
    requests = [replace(ONE, request_id=RequestId(name)) for name in "abc"]
    for one in requests:
        checked.keep(one, Prompt([1, 2]))
    assert [checked.take(one) is not None for one in requests] == [False, True, True]
    checked.keep(ONE, Prompt([0] * 6))
    assert len(checked) == 0
