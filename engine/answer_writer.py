"""What is told of an answer's tokens: ids go in one by one, events come out.

Made for each answer by `engine.answer`, used in the engine thread. It joins the text, the calls of tools in it, and how likely
its tokens were. It must never tell anything of a token behind a stop string.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from engine.answer_text import AnswerText
from engine.likelihood import Likelihood
from engine.tool_chat import new_call_id
from engine.tool_dialect import ToolDialect
from engine.tool_reader import Piece, Said, ToolReader
from engine.types import EngineEvent, RequestId, TextDelta, TokenLogprob, ToolCallDelta


class AnswerWriter:
    """Owns what was not told yet. `name_of` gives the bytes by which a token is named among the likeliest."""

    def __init__(
        self,
        request_id: RequestId,
        text: AnswerText,
        name_of: Callable[[int], bytes],
        dialect: ToolDialect | None = None,
    ) -> None:
        """`dialect` is that of the calls that are looked for; None where the answer is text whatever it looks like."""
        self._request_id = request_id
        self._text = text
        self._calls = _Calls(request_id, dialect) if dialect is not None else None
        self._logprobs = _WaitingLogprobs(name_of)

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found."""
        return self._text.stopped

    @property
    def num_shown_tokens(self) -> int:
        return self._text.num_shown_tokens

    def token_ids(self) -> tuple[int, ...] | None:
        """Those whose decoding is the text; None where some of them were calls."""
        return None if self._has_calls else self._text.token_ids()

    @property
    def _has_calls(self) -> bool:
        return self._calls is not None and self._calls.reader.num_calls > 0

    def push(self, token_id: int, likelihood: Likelihood | None, output_tokens: int) -> list[EngineEvent]:
        """What may be told now that the next token is there."""
        if likelihood is not None:
            self._logprobs.add(token_id, likelihood, self._text.num_chars)
        return self._events(self._text.push(token_id), output_tokens)

    def flush(self, output_tokens: int) -> list[EngineEvent]:
        """The answer has ended: what was still held back."""
        return self._events(self._text.flush(), output_tokens, is_last=True)

    def rest(self) -> tuple[TokenLogprob, ...]:
        """After `flush`: of the tokens at the end that have no text."""
        return () if self._text.stopped or self._has_calls else self._logprobs.take()

    def _events(self, text: str, output_tokens: int, *, is_last: bool = False) -> list[EngineEvent]:
        if self._calls is not None:
            return self._calls.events(text, output_tokens, self._shown_logprobs, is_last=is_last)
        return [TextDelta(self._request_id, text, output_tokens, self._shown_logprobs())] if text else []

    def _shown_logprobs(self) -> tuple[TokenLogprob, ...]:
        return self._logprobs.take_before(self._text.num_shown_chars)


class _Calls:
    """The calls of one answer, with the ids they get."""

    def __init__(self, request_id: RequestId, dialect: ToolDialect) -> None:
        self.reader = ToolReader(dialect)
        self._request_id = request_id
        self._dialect = dialect

    def events(
        self,
        text: str,
        output_tokens: int,
        shown_logprobs: Callable[[], tuple[TokenLogprob, ...]],
        *,
        is_last: bool,
    ) -> list[EngineEvent]:
        """What the next text is. Tokens of calls have no likelihood to tell: it is of the text alone."""
        pieces = self.reader.push(text) if text else []
        pieces += self.reader.flush() if is_last else []
        return [self._event(piece, output_tokens, shown_logprobs()) for piece in pieces]

    def _event(self, piece: Piece, output_tokens: int, logprobs: tuple[TokenLogprob, ...]) -> EngineEvent:
        if isinstance(piece, Said):
            return TextDelta(self._request_id, piece.text, output_tokens, logprobs)
        call_id = new_call_id(self._dialect) if piece.name is not None else None
        return ToolCallDelta(self._request_id, piece.index, piece.arguments, output_tokens, call_id, piece.name)


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
