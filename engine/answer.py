"""One answer between its request and its `Finished`: what the scheduler, the sampler and the reader know of it, and its times.

Made and changed by `engine.core`, in the engine thread.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass

from engine.answer_text import AnswerText
from engine.answer_writer import AnswerWriter
from engine.fair_shares import account_of
from engine.grammar import TokenGrammar
from engine.likelihood import Likelihood
from engine.prefixes import Prefix
from engine.sampler import SamplingState
from engine.sequence import Sequence
from engine.session import Session
from engine.structure import Tools
from engine.tokenizer import ChatTokenizer
from engine.types import (
    CachedFrom,
    EngineEvent,
    FinishReason,
    GenerationRequest,
    Namespace,
    Priority,
    RequestId,
    SamplingParams,
    SessionKey,
    Usage,
)


@dataclass(frozen=True, slots=True)
class Arrival:
    """How a request comes to the engine: as which, when it was sent and when it was taken, and what the engine has for it."""

    number: int
    arrived_at: float
    now: float
    tokenizer: ChatTokenizer
    max_sequence_tokens: int

    def most_tokens(self, prompt_tokens: int, max_tokens: int | None) -> int:
        """Tokens that prompt and answer may have together."""
        most = self.max_sequence_tokens
        return most if max_tokens is None else min(most, prompt_tokens + max_tokens)

    def made_for(
        self, sequence: Sequence, params: SamplingParams, tools: Tools | None = None
    ) -> tuple[SamplingState, AnswerWriter]:
        tokenizer = self.tokenizer
        dialect = tokenizer.tool_dialect if tools is not None and tools.are_told else None
        detokenizer, decode = tokenizer.detokenizer(), tokenizer.decode
        if dialect is not None:
            detokenizer, decode = tokenizer.tool_detokenizer(), tokenizer.tool_decode
        text = AnswerText(detokenizer, decode, params.stop, params.min_tokens)
        writer = AnswerWriter(sequence.request_id, text, tokenizer.name_of, dialect)
        return SamplingState(params, sequence.tokens, tokenizer.vocabulary_size), writer


@dataclass(slots=True)
class Answer:
    """A request the engine has taken. Times are seconds of the engine's clock, None before they are reached."""

    sequence: Sequence
    sampling: SamplingState
    writer: AnswerWriter
    arrived_at: float
    dropped_turns: int = 0
    first_scheduled_at: float | None = None
    first_token_at: float | None = None
    last_token_at: float | None = None
    grammar: TokenGrammar | None = None
    prefix: Prefix | None = None
    """The persona's prefix that this computes."""
    is_groundwork: bool = False
    """Nobody listens, and nothing of it is told or counted as an answer."""

    @classmethod
    def to(
        cls,
        request: GenerationRequest,
        prompt_ids: list[int],
        arrival: Arrival,
        dropped_turns: int,
        grammar: TokenGrammar | None,
    ) -> Answer:
        """The answer to a request whose prompt is known to fit. `grammar` is its own, before its first token."""
        sequence = Sequence(
            request.request_id,
            arrival.number,
            tokens=prompt_ids,
            num_prompt_tokens=len(prompt_ids),
            max_tokens=arrival.most_tokens(len(prompt_ids), request.sampling.max_tokens),
            priority=request.priority,
            account=account_of(request.namespace),
            queued_at=arrival.now,
            num_allowed=grammar.num_allowed if grammar is not None else None,
        )
        sampling, writer = arrival.made_for(sequence, request.sampling, request.tools)
        return cls(sequence, sampling, writer, arrival.arrived_at, dropped_turns, grammar=grammar)

    @classmethod
    def building(cls, prefix: Prefix, arrival: Arrival) -> Answer:
        """One that nobody listens to: it computes a persona's prefix, or has it loaded."""
        ids = list(prefix.ids)
        return cls._groundwork(f"prefix {prefix.name}", ids, prefix.owner, len(ids), arrival, prefix)

    @classmethod
    def opening(cls, session: Session, ids: list[int], arrival: Arrival) -> Answer:
        """One that nobody listens to: it computes what the session's next prompt begins with."""
        public_tokens = session.public_tokens
        answer = cls._groundwork("opening", ids, session, public_tokens, arrival)
        answer.sequence.page_keys = session.known_keys(ids, public_tokens)
        return answer

    @classmethod
    def _groundwork(
        cls,
        name: str,
        ids: list[int],
        owner: Session,
        public_tokens: int,
        arrival: Arrival,
        prefix: Prefix | None = None,
    ) -> Answer:
        sequence = Sequence(
            RequestId(f"{name} {arrival.number}"),
            arrival.number,
            tokens=ids,
            num_prompt_tokens=len(ids),
            max_tokens=arrival.most_tokens(len(ids), 1),
            namespace=owner.key.namespace,
            public_tokens=public_tokens,
            session=owner,
            priority=Priority.BACKGROUND,
            account=account_of(owner.key.namespace),
            queued_at=arrival.now,
        )
        sampling, writer = arrival.made_for(sequence, SamplingParams(max_tokens=1, temperature=0.0))
        return cls(sequence, sampling, writer, arrival.arrived_at, prefix=prefix, is_groundwork=True)

    def states_along(self, draft: Items[int]) -> list[SamplingState]:
        """What the next token is sampled with, and then each one behind a token of the draft."""
        states = self.sampling.along(draft)
        if self.grammar is not None:
            masks = self.grammar.masks(draft, [state.may_end for state in states])
            for state, mask in zip(states, masks, strict=True):
                state.allowed = mask
        return states

    def no_token(self) -> Exception:
        """Why none could be sampled."""
        failure = self.grammar.failure() if self.grammar is not None else None
        return failure or ArithmeticError("the model's output is not made of finite numbers")

    def take(
        self, token_id: int, likelihood: Likelihood | None, end_token_ids: frozenset[int], now: float
    ) -> tuple[list[EngineEvent], FinishReason | None]:
        """The next token was sampled: what is to be told of it, and why the answer ends with it, if it does."""
        sequence = self.sequence
        sequence.append(token_id)
        self.sampling.append(token_id)
        self.first_token_at = now if self.first_token_at is None else self.first_token_at
        self.last_token_at = now
        if self.grammar is not None:
            self.grammar.append(token_id)
        if token_id in end_token_ids and not self.sampling.params.ignore_eos:
            return [], FinishReason.STOP
        events = self.writer.push(token_id, likelihood, sequence.num_output_tokens)
        if self.writer.stopped or (self.grammar is not None and self.grammar.is_complete):
            return events, FinishReason.STOP
        return events, FinishReason.LENGTH if sequence.is_full else None

    @property
    def cached_from(self) -> CachedFrom:
        return self.sequence.cached_from or CachedFrom()

    @property
    def ttft_ms(self) -> float | None:
        return _milliseconds(self.arrived_at, self.first_token_at)

    def is_turn_of(self, key: SessionKey) -> bool:
        return self.sequence.session is not None and self.sequence.session.key == key and self.prefix is None

    def is_within(self, namespace: Namespace) -> bool:
        return self.sequence.namespace is not None and namespace.covers(self.sequence.namespace)

    def is_building(self, name: str) -> bool:
        return self.prefix is not None and self.prefix.name == name

    def usage(self) -> Usage:
        """What it cost so far."""
        return Usage(
            input_tokens=self.sequence.num_prompt_tokens,
            cached_tokens=self.cached_from.total,
            cached_from=self.cached_from,
            output_tokens=self.sequence.num_output_tokens,
            queue_ms=_milliseconds(self.arrived_at, self.first_scheduled_at),
            prefill_ms=_milliseconds(self.first_scheduled_at, self.first_token_at),
            ttft_ms=self.ttft_ms,
            decode_ms=_milliseconds(self.first_token_at, self.last_token_at),
            dropped_turns=self.dropped_turns,
        )


def _milliseconds(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else (end - begin) * 1000
