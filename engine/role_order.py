"""The same chat in other orders of roles, for templates that insist on one.

Many templates take user and assistant in strict turn, or know no system role. A chat must not end there: an answer that was
stopped before its first word leaves two messages of the user in a row (mistralai/mistral-vibe#1006). Used by
`engine.tokenizer`, which takes the first order the template accepts. Nothing is left out in any of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from engine.types import Role, Turn

BETWEEN_MESSAGES = "\n\n"
"""What stands between the texts of messages that become one."""


def role_orders(turns: Sequence[Turn]) -> Iterator[Sequence[Turn]]:
    """The turns as they are; then with neighbours of one role joined; then also with what a system message says at the
    beginning of the user's message after it. Only those that differ from the one before. Where the first to speak is not the
    user, such as a person who greets a visitor, the last order begins with a user who says nothing."""
    yield turns
    joined = _joined(turns)
    if len(joined) < len(turns):
        yield joined
    folded = _joined(_with_system_in_user(joined))
    if len(folded) < len(joined):
        yield folded
    first = next((index for index, turn in enumerate(joined) if turn.role is not Role.SYSTEM), len(joined))
    if first < len(joined) and joined[first].role is Role.ASSISTANT:
        yield from role_orders([*joined[:first], Turn(Role.USER, ""), *joined[first:]])


def _joined(turns: Iterable[Turn]) -> list[Turn]:
    joined: list[Turn] = []
    for turn in turns:
        if joined and joined[-1].role is turn.role and not _is_of_tools(turn) and not _is_of_tools(joined[-1]):
            joined[-1] = Turn(turn.role, joined[-1].text + BETWEEN_MESSAGES + turn.text)
        else:
            joined.append(turn)
    return joined


def _is_of_tools(turn: Turn) -> bool:
    """Each call and each result stands for itself."""
    return turn.role is Role.TOOL or bool(turn.tool_calls)


def _with_system_in_user(turns: Sequence[Turn]) -> Iterator[Turn]:
    waiting: Turn | None = None
    for turn in turns:
        if waiting is not None and turn.role is Role.USER:
            turn = Turn(Role.USER, waiting.text + BETWEEN_MESSAGES + turn.text)
            waiting = None
        if waiting is not None:
            yield waiting
        waiting = turn if turn.role is Role.SYSTEM else None
        if waiting is None:
            yield turn
    if waiting is not None:
        yield waiting
