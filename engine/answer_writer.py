"""What is told of an answer's tokens: ids go in one by one, events come out.

Made for each answer by `engine.answer`, used in the engine thread. It joins the text and how likely its tokens were. It must
never tell anything of a token behind a stop string.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from engine.answer_text import AnswerText
from engine.likelihood import Likelihood
from engine.types import EngineEvent, RequestId, TextDelta, TokenLogprob


class AnswerWriter:
    """Owns what was not told yet. `name_of` gives the bytes by which a token is named among the likeliest."""

    def __init__(self, request_id: RequestId, text: AnswerText, name_of: Callable[[int], bytes]) -> None:
        self._request_id = request_id
        self._text = text
        self._logprobs = _WaitingLogprobs(name_of)

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found."""
        return self._text.stopped

    @property
    def num_shown_tokens(self) -> int:
        return self._text.num_shown_tokens

    def token_ids(self) -> tuple[int, ...] | None:
        return self._text.token_ids()

    def push(self, token_id: int, likelihood: Likelihood | None, output_tokens: int) -> list[EngineEvent]:
        """What may be told now that the next token is there."""
        if likelihood is not None:
            self._logprobs.add(token_id, likelihood, self._text.num_chars)
        return self._events(self._text.push(token_id), output_tokens)

    def flush(self, output_tokens: int) -> list[EngineEvent]:
        """The answer has ended: what was still held back."""
        return self._events(self._text.flush(), output_tokens)

    def rest(self) -> tuple[TokenLogprob, ...]:
        """After `flush`: of the tokens at the end that have no text."""
        return () if self._text.stopped else self._logprobs.take()

    def _events(self, text: str, output_tokens: int) -> list[EngineEvent]:
        if not text:
            return []
        logprobs = self._logprobs.take_before(self._text.num_shown_chars)
        return [TextDelta(self._request_id, text, output_tokens, logprobs)]


class _WaitingLogprobs:
    """Those of tokens whose text is not shown yet, with the place where it begins."""

    def __init__(self, name_of: Callable[[int], bytes]) -> None:
        self._name_of = name_of
        self._waiting: deque[tuple[int, TokenLogprob]] = deque()

    def add(self, token_id: int, likelihood: Likelihood, begins_at: int) -> None:
        top = tuple(self._named(other, logprob) for other, logprob in likelihood.top)
        self._waiting.append((begins_at, self._named(token_id, likelihood.logprob, top)))

    def take_before(self, num_shown_chars: int) -> tuple[TokenLogprob, ...]:
        taken: list[TokenLogprob] = []
        while self._waiting and self._waiting[0][0] < num_shown_chars:
            taken.append(self._waiting.popleft()[1])
        return tuple(taken)

    def take(self) -> tuple[TokenLogprob, ...]:
        taken = tuple(logprob for _, logprob in self._waiting)
        self._waiting.clear()
        return taken

    def _named(self, token_id: int, logprob: float, top: tuple[TokenLogprob, ...] = ()) -> TokenLogprob:
        name = self._name_of(token_id)
        return TokenLogprob(name.decode(errors="replace"), name, logprob, top)
