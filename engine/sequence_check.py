"""Whether the sequences of a scheduler are where their states say, with the pages they should have. Pure; changes nothing."""

from __future__ import annotations

from collections.abc import Iterable

from engine.errors import EngineError
from engine.pages import pages_for
from engine.sequence import Sequence, SequenceState


def check_sequences(waiting: Iterable[Sequence], restoring: Iterable[Sequence], running: Iterable[Sequence]) -> None:
    """Raise EngineError where they contradict each other. `running` must be in the order of arrival."""
    waiting, running = list(waiting), list(running)
    arrivals = [sequence.arrival for sequence in running]
    if arrivals != sorted(set(arrivals)):
        raise EngineError("the running sequences are out of order")
    for sequences, state in (
        (waiting, SequenceState.WAITING),
        (restoring, SequenceState.RESTORING),
        (running, SequenceState.RUNNING),
    ):
        if any(sequence.state is not state for sequence in sequences):
            raise EngineError(f"a sequence among those {state.name} is in another state")
    if any(sequence.pages or sequence.num_computed for sequence in waiting):
        raise EngineError("a waiting sequence holds pages")
    for sequence in running:
        if not pages_for(sequence.num_computed) <= len(sequence.pages) <= pages_for(len(sequence.tokens)):
            raise EngineError("a running sequence has fewer pages than tokens computed, or more than tokens")
