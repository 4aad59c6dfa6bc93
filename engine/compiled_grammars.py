"""The event loop's side of `engine.grammars`: a thread that compiles, started with the first constraint.

Made by `engine.local`. A schema takes milliseconds to compile and a hostile one up to a second, so neither the loop nor the
thread that tokenises does it. Importing this module imports no grammar library: most servers are never asked for one.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from engine.types import GenerationRequest

if TYPE_CHECKING:
    from engine.grammar import TokenGrammar
    from engine.grammars import Grammars, VocabularyOfBytes


class CompiledGrammars:
    """Owns the thread, and in it the grammars of one model."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kvasir-grammar")
        self._grammars: Grammars | None = None

    async def grammar(self, request: GenerationRequest, tokenizer: VocabularyOfBytes) -> TokenGrammar | None:
        """A fresh one for the answer; None where it may say anything. Raises ConstraintRefused."""
        if request.constraint is None and (request.tools is None or not request.tools.are_told):
            return None
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._compiled, request, tokenizer)

    def close(self) -> None:
        """Whoever waits for a grammar still gets it."""
        self._thread.shutdown(wait=False)

    def _compiled(self, request: GenerationRequest, tokenizer: VocabularyOfBytes) -> TokenGrammar | None:
        if self._grammars is None:
            from engine.grammars import Grammars

            self._grammars = Grammars(tokenizer)
        return self._grammars.grammar(request)
