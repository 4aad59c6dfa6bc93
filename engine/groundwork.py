"""What is computed before anybody asks: personas' prefixes, and the openings of sessions' next turns.

Used by `engine.core`, in the engine thread. Between an answer and the words of the next message stand tokens of the template
that depend on neither. While the engine has nothing else to do it computes those too, as if the turn had come, so that the
next first token costs the new words only. What is computed in vain, because a session goes on in another way, costs a step of
an idle engine: pages are found by their tokens, so it is never used wrongly.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from engine.answer import Answer, Arrival
from engine.errors import PromptTooLong
from engine.memory import Memory
from engine.scheduler import Scheduler
from engine.sequence import Sequence as TokenSequence
from engine.session import Session
from engine.snapshot import SessionState
from engine.types import FinishReason, Namespace, SessionKey

logger = logging.getLogger(__name__)

MAX_OPENINGS: Final = 32
"""Sessions whose next turn waits to be opened. An engine that never idles forgets those that have waited longest."""


class Groundwork:
    """Owns the one request that nobody listens to, and the list of what comes next. `between_ids` stand between an answer and
    what the user says next; where there are none, no turn is opened."""

    def __init__(self, scheduler: Scheduler, memory: Memory, between_ids: Sequence[int]) -> None:
        self._scheduler = scheduler
        self._memory = memory
        self._between_ids = tuple(between_ids)
        self._openings: OrderedDict[SessionKey, tuple[Session, list[int]]] = OrderedDict()
        self._answer: Answer | None = None

    @property
    def is_due(self) -> bool:
        """Whether the next step begins something."""
        if self._answer is not None:
            return False
        return self._memory.prefixes.next_to_build() is not None or self._may_open

    @property
    def _may_open(self) -> bool:
        return bool(self._openings) and not self._scheduler.has_work

    def forget(self, key: SessionKey | None) -> None:
        """The session's next turn is there, or never comes."""
        if key is not None:
            self._openings.pop(key, None)

    def forget_namespace(self, namespace: Namespace) -> None:
        """Nothing of it comes any more, its parts included."""
        for key in [key for key in self._openings if namespace.covers(key.namespace)]:
            del self._openings[key]

    def turn_ended(self, sequence: TokenSequence, num_tokens: int) -> None:
        """The session's next prompt is going to begin with the first `num_tokens` of the sequence."""
        session = sequence.session
        if session is None or not self._between_ids:
            return
        self._openings[session.key] = session, [*sequence.tokens[:num_tokens], *self._between_ids]
        self._openings.move_to_end(session.key)
        if len(self._openings) > MAX_OPENINGS:
            self._openings.popitem(last=False)

    def begin(self, arrival: Arrival) -> Answer | None:
        """Queue the next piece where one is due: a prefix whenever there is one, an opening while there is nothing else to do."""
        answer = self._next_prefix(arrival) or self._next_opening(arrival)
        self._answer = answer
        return answer

    @property
    def obsolete(self) -> Answer | None:
        """The opening that is being computed, where its session has left the device: no page belongs to one that has gone."""
        session = self._answer.sequence.session if self._answer is not None else None
        has_left = session is not None and session.state not in (SessionState.DEVICE, SessionState.ACTIVE)
        return self._answer if has_left else None

    def end(self, answer: Answer, reason: FinishReason) -> None:
        """The sequence that `begin` returned has ended."""
        self._answer = None
        is_built = reason in (FinishReason.STOP, FinishReason.LENGTH)
        if answer.prefix is not None:
            self._memory.end_prefix(answer.prefix, answer.sequence, is_built=is_built)
        else:
            self._memory.leave(answer.sequence, answer.sequence.num_prompt_tokens if is_built else None)

    def _next_prefix(self, arrival: Arrival) -> Answer | None:
        prefix = self._memory.prefixes.next_to_build()
        if prefix is None:
            return None
        answer = Answer.building(prefix, arrival)
        try:
            self._scheduler.add(answer.sequence)
        except PromptTooLong as problem:
            logger.warning("the prefix of persona %r is not kept: %s", prefix.name, problem)
            self._memory.let_go(self._memory.prefixes.failed(prefix, is_hopeless=True))
            return None
        return answer

    def _next_opening(self, arrival: Arrival) -> Answer | None:
        while self._may_open:
            key, (session, ids) = self._openings.popitem()
            # What has been dropped, parked or taken up again since is left alone.
            if self._memory.sessions.get(key) is not session or session.state is not SessionState.DEVICE:
                continue
            if len(ids) >= arrival.max_sequence_tokens:
                continue
            answer = Answer.opening(session, ids, arrival)
            self._scheduler.add(answer.sequence)
            return answer
        return None
