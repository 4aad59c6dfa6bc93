"""What the fake engine remembers between answers: a small, honest model of reuse, without pages and without time.

A path is the token list of a turn that ended. A prompt finds the longest beginning that it has in common with a path of its own
namespace, and of the persona it names. Given to a second `FakeEngine`, it is what the first one has left on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.config import PAGE_TOKENS
from engine.snapshot import PagesByTier, PrefixState, PrefixStatus, SessionState, SessionStatus
from engine.types import CachedFrom, GenerationRequest, Namespace, Priority, SessionKey, Usage
from tests.support.fake_vocabulary import FakeVocabulary, Ids

NEXT_TIER = {SessionState.DEVICE: SessionState.HOST, SessionState.HOST: SessionState.DISK, SessionState.DISK: None}

SECONDS_TO_TIMEOUT = 300.0
"""What it says of every idle session, because it has no time."""


@dataclass
class FakeSession:
    """`paths` are the branches of the conversation, each with how many of its first tokens are a persona's."""

    priority: Priority = Priority.INTERACTIVE
    tier: SessionState = SessionState.DEVICE
    paths: dict[Ids, int] = field(default_factory=dict)
    running: int = 0
    is_held: bool = False
    turns: int = 0
    cached_tokens: int = 0
    ttft_ms: float | None = None


@dataclass
class FakePrefix:
    ids: Ids
    state: PrefixState = PrefixState.BUILDING
    source: str | None = None


class FakeMemory:
    """Owns sessions, the paths of requests without one, personas' prefixes, and the vocabulary their tokens are of."""

    def __init__(self) -> None:
        self.vocabulary = FakeVocabulary()
        self.prefixes: dict[str, FakePrefix] = {}
        self._sessions: dict[SessionKey, FakeSession] = {}
        self._without_session: dict[Namespace, FakeSession] = {}

    def begin(self, request: GenerationRequest) -> None:
        """A turn was submitted."""
        if (key := request.session_key) is not None:
            session = self._sessions.setdefault(key, FakeSession())
            session.priority = request.priority
            session.running += 1

    def found(self, request: GenerationRequest, prompt: Ids) -> CachedFrom:
        """How much of a prompt need not be computed; its last token always has to be."""
        if request.namespace is None:
            return CachedFrom()
        public = self._public_tokens(request, prompt)
        prefix = self.prefixes.get(request.persona or "")
        prefix_tokens = public if prefix is not None and prefix.state is PrefixState.READY else 0
        tokens, tier = prefix_tokens, SessionState.DEVICE
        for session in self._of(request.namespace):
            for path, public_of_path in session.paths.items():
                common = _common(path, prompt) if public_of_path == public else 0
                if common > tokens:
                    tokens, tier = common, session.tier
        tokens = min(tokens, len(prompt) - 1)
        own = max(0, tokens - public)
        return CachedFrom(**{tier.value: own}, prefix=tokens - own)

    def commit(self, request: GenerationRequest, tokens: Ids, usage: Usage) -> None:
        """A turn has ended with these tokens."""
        if request.namespace is None:
            return
        key = request.session_key
        session = self._without_session.setdefault(request.namespace, FakeSession())
        if key is not None:
            session = self._sessions[key]
        session.paths = {path: public for path, public in session.paths.items() if tokens[: len(path)] != path}
        session.paths[tokens] = self._public_tokens(request, tokens)
        session.tier = SessionState.DEVICE
        session.turns += 1
        session.cached_tokens, session.ttft_ms = usage.cached_tokens, usage.ttft_ms

    def end(self, request: GenerationRequest) -> None:
        """A turn is over, committed or not. A session that never had one is none."""
        if (key := request.session_key) is not None and (session := self._sessions.get(key)) is not None:
            session.running -= 1
            if not session.running and not session.paths:
                del self._sessions[key]

    def evict(self, key: SessionKey) -> bool:
        """Move a session to the next tier."""
        session = self._sessions.get(key)
        if session is None or session.running:
            return False
        if (tier := NEXT_TIER[session.tier]) is None:
            del self._sessions[key]
        else:
            session.tier = tier
        return True

    def hold(self, key: SessionKey, *, is_held: bool) -> bool:
        """Stop a session's timers, or let them go on."""
        if (session := self._sessions.get(key)) is not None:
            session.is_held = is_held
        return session is not None

    def drop(self, key: SessionKey) -> bool:
        """Forget a session."""
        return self._sessions.pop(key, None) is not None

    def drop_namespace(self, namespace: Namespace) -> int:
        """Forget everything of a namespace and its parts; how many sessions that were."""
        keys = [key for key in self._sessions if namespace.covers(key.namespace)]
        for key in keys:
            del self._sessions[key]
        for other in [other for other in self._without_session if namespace.covers(other)]:
            del self._without_session[other]
        return len(keys)

    def build_prefixes(self) -> None:
        """A step has been taken: prefixes that were being computed are there."""
        for prefix in self.prefixes.values():
            if prefix.state is PrefixState.BUILDING:
                prefix.state, prefix.source = PrefixState.READY, "computed"

    def session_states(self) -> tuple[SessionStatus, ...]:
        """Every session, for a snapshot."""
        return tuple(_status(key, session) for key, session in self._sessions.items())

    def prefix_states(self) -> tuple[PrefixStatus, ...]:
        """Every prefix, for a snapshot."""
        return tuple(
            PrefixStatus(name, prefix.state, len(prefix.ids), _pages(len(prefix.ids)), prefix.source)
            for name, prefix in self.prefixes.items()
        )

    def _public_tokens(self, request: GenerationRequest, tokens: Ids) -> int:
        prefix = self.prefixes.get(request.persona or "")
        return 0 if prefix is None else _common(prefix.ids, tokens)

    def _of(self, namespace: Namespace) -> Sequence[FakeSession]:
        others = [self._without_session[namespace]] if namespace in self._without_session else []
        return [*(session for key, session in self._sessions.items() if key.namespace == namespace), *others]


def _status(key: SessionKey, session: FakeSession) -> SessionStatus:
    tokens = max(map(len, session.paths), default=0)
    return SessionStatus(
        key=key,
        state=SessionState.ACTIVE if session.running else session.tier,
        priority=session.priority,
        turns=session.turns,
        tokens=tokens,
        pages=PagesByTier(**{session.tier.value: _pages(tokens)}),
        cached_tokens=session.cached_tokens,
        ttft_ms=session.ttft_ms,
        idle_s=0.0,
        seconds_to_timeout=None if session.running or session.is_held else SECONDS_TO_TIMEOUT,
    )


def _pages(tokens: int) -> int:
    return -(-tokens // PAGE_TOKENS)


def _common(one: Ids, other: Ids) -> int:
    """How many tokens they begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((count for count, (mine, yours) in pairs if mine != yours), min(len(one), len(other)))
