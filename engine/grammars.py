"""Compiles the constraints of requests, and keeps the grammars that were used last.

Made by `engine.local` when the model is there, used in one thread of its own: neither the event loop nor the engine's thread ever
compiles. The vocabulary is handed to the grammar library exactly as the detokeniser reads it.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from engine.errors import ConstraintRefused
from engine.grammar import GrammarFailed, GrammarVocabulary, Mask, TokenGrammar, first_line
from engine.grammar_source import GrammarSource, constraint_source
from engine.number_bound import MOST_EXPONENT_DIGITS, has_own_exponent, num_leading_digits
from engine.tool_dialect import ToolDialect
from engine.tool_grammar import tools_source
from engine.types import GenerationRequest

logger = logging.getLogger(__name__)

KEPT_GRAMMARS: Final = 64
KEPT_CHARS: Final = 1 << 20
"""Of the texts of all grammars kept. What is compiled of them is about ten times as large."""

TRIED_TOKENS: Final = 8
TRIED_STRIDE: Final = 7919
"""Of a new grammar, and how they are chosen among those allowed: here and there, the same every time."""

INITIAL_LEXER_FUEL: Final = 400_000
STEP_LEXER_FUEL: Final = 20_000
STEP_MAX_ITEMS: Final = 20_000
MAX_LEXER_STATES: Final = 50_000
MAX_GRAMMAR_SIZE: Final = 200_000
"""Bounds in the library's own units, for a schema and for one token. With its defaults one token of a hostile pattern takes up to
4 seconds, with these 0.3."""


class VocabularyOfBytes(Protocol):
    """What is asked of a tokenizer here."""

    vocabulary_size: int
    end_token_ids: frozenset[int]
    tool_dialect: ToolDialect | None
    tool_mark_ids: Mapping[str, int]

    def bytes_of(self, token_id: int) -> bytes: ...

    def name_of(self, token_id: int) -> bytes: ...

    def encode_answer(self, text: str) -> list[int]: ...


class Grammars:
    """Owns the library's view of the vocabulary, made at the first constraint, and the compiled grammars. One thread."""

    def __init__(self, tokenizer: VocabularyOfBytes, clock: Callable[[], float] = time.perf_counter) -> None:
        self._tokenizer = tokenizer
        self._clock = clock
        self._vocabulary: _Vocabulary | None = None
        self._kept: OrderedDict[GrammarSource, LLMatcher] = OrderedDict()
        self._num_chars = 0

    def grammar(self, request: GenerationRequest) -> TokenGrammar | None:
        """That of an answer before its first token; None where it may say anything. Raises ConstraintRefused."""
        source = self._source(request)
        if source is None:
            return None
        matcher = self._compiled(source).deep_copy()
        return TokenGrammar(matcher, self._ready.shared, self._clock, bounds_numbers=source.is_json)

    def _source(self, request: GenerationRequest) -> GrammarSource | None:
        tools, tokenizer = request.tools, self._tokenizer
        if tools is not None and tools.are_told and tokenizer.tool_dialect is not None:
            return tools_source(tools, tokenizer.tool_dialect, tokenizer.tool_mark_ids, request.constraint)
        return None if request.constraint is None else constraint_source(request.constraint)

    @property
    def _ready(self) -> _Vocabulary:
        if self._vocabulary is None:
            begun = self._clock()
            self._vocabulary = _Vocabulary(self._tokenizer)
            logger.info("the vocabulary is ready for grammars after %.2f s", self._clock() - begun)
        return self._vocabulary

    def _compiled(self, source: GrammarSource) -> LLMatcher:
        if source in self._kept:
            self._kept.move_to_end(source)
            return self._kept[source]
        matcher = self._compile(source)
        self._kept[source] = matcher
        self._num_chars += len(source.text)
        while len(self._kept) > KEPT_GRAMMARS or self._num_chars > KEPT_CHARS:
            oldest, _ = self._kept.popitem(last=False)
            self._num_chars -= len(oldest.text)
        return matcher

    def _compile(self, source: GrammarSource) -> LLMatcher:
        limits = LLParserLimits(
            initial_lexer_fuel=INITIAL_LEXER_FUEL,
            step_lexer_fuel=STEP_LEXER_FUEL,
            step_max_items=STEP_MAX_ITEMS,
            max_lexer_states=MAX_LEXER_STATES,
            max_grammar_size=MAX_GRAMMAR_SIZE,
            verbose_errors=False,
        )
        grammar = LLMatcher.grammar_from_lark(source.text)
        matcher = LLMatcher(self._ready.tokenizer, grammar, log_level=0, limits=limits)
        if matcher.is_error():
            raise ConstraintRefused(f"{source.what} cannot be used: {first_line(matcher.get_error())}")
        self._try(TokenGrammar(matcher.deep_copy(), self._ready.shared, self._clock, bounds_numbers=False), source.what)
        return matcher

    def _try(self, grammar: TokenGrammar, what: str) -> None:
        """Follow it for some tokens: that finds what nothing can satisfy, and what takes too much to follow."""
        for place in range(TRIED_TOKENS):
            (mask,) = grammar.masks((), [False])
            allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
            failure = grammar.failure()
            if failure is None and len(allowed):
                try:
                    grammar.append(int(allowed[TRIED_STRIDE * place % len(allowed)]))
                except GrammarFailed as problem:
                    failure = problem
            if failure is not None or not len(allowed):
                reason = str(failure) if place else "nothing satisfies it, or it is too complex"
                raise ConstraintRefused(f"{what} cannot be followed: {reason}") from None
            if grammar.is_complete:
                return


class _Vocabulary:
    """The tokens as the library knows them. A model without an end token gets one here that it can never sample."""

    def __init__(self, tokenizer: VocabularyOfBytes) -> None:
        size = tokenizer.vocabulary_size
        token_bytes = [tokenizer.bytes_of(token_id) for token_id in range(size)]
        ends = sorted(token_id for token_id in tokenizer.end_token_ids if token_id < size)
        self.tokenizer = LLTokenizer(
            TokenizerWrapper(_Tokens(tokenizer, token_bytes, ends or [size])), eos_token=ends or [size]
        )
        num_words = -(-self.tokenizer.vocab_size // 32)
        digits = [*map(num_leading_digits, token_bytes)]
        self.shared = GrammarVocabulary(
            token_bytes,
            _mask_of(ends, num_words),
            [
                _mask_of([token_id for token_id, count in enumerate(digits) if count > most], num_words)
                for most in range(MOST_EXPONENT_DIGITS + 1)
            ],
            _mask_of([token_id for token_id, text in enumerate(token_bytes) if has_own_exponent(text)], num_words),
        )


class _Tokens:
    """The names under which the library looks for what it has to know."""

    def __init__(self, tokenizer: VocabularyOfBytes, token_bytes: Sequence[bytes], ends: Sequence[int]) -> None:
        silent = [token_id for token_id, text in enumerate(token_bytes) if not text]
        self._tokenizer = tokenizer
        self.eos_token_id = ends[0]
        self.bos_token_id = None
        self.tokens = [text or tokenizer.name_of(token_id) for token_id, text in enumerate(token_bytes)]
        self.special_token_ids = [*silent]
        if self.eos_token_id == len(self.tokens):
            self.tokens.append(b"<|end|>")
            self.special_token_ids.append(self.eos_token_id)

    def __call__(self, text: str) -> list[int]:
        """How the model would write it: used where the grammar leaves no choice."""
        if not isinstance(text, str):
            raise TypeError("a text is encoded, and not bytes")
        return self._tokenizer.encode_answer(text)


def _mask_of(token_ids: Sequence[int], num_words: int) -> Mask:
    bits = np.zeros(num_words * 32, dtype=np.uint8)
    bits[token_ids] = 1
    return np.packbits(bits, bitorder="little").view(np.uint32)
