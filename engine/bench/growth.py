"""How things grow: the first token with the length of the history, memory with the sessions held, tokens with the streams.

Called by `kvasir bench growth`. It sees the engine only from outside, as the server does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Final

from engine.bench.capacity import first_turns, text_of, tokens_per_word
from engine.bench.chats import Chats, chatting
from engine.bench.machine import describe_run, describe_versions, resident_bytes
from engine.bench.samples import percentile, spread
from engine.bench.streams import measure_streams
from engine.config import EngineConfig
from engine.types import Namespace, Role, Turn

Report = Callable[[str], None]
QUESTION: Final = "Now tell me which of all these things you like best, and why that is so."
MEASURED_STREAM_TOKENS: Final = 64


@dataclass(frozen=True, slots=True)
class GrowthSettings:
    """Lengths of histories in tokens, numbers of sessions of `session_tokens` tokens each, and numbers of streams."""

    histories: tuple[int, ...] = (256, 512, 1024, 2048, 4096)
    sessions: tuple[int, ...] = (8, 16, 32, 64)
    session_tokens: int = 512
    streams: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    repeats: int = 3

    @property
    def num_measurements(self) -> int:
        """How many times `report` is called."""
        return self.repeats * (len(self.histories) + len(self.streams)) + len(self.sessions)


async def measure_growth(config: EngineConfig, settings: GrowthSettings, report: Report) -> dict[str, Any]:
    """All three, on engines of the same settings. Raises EngineError."""
    config = replace(config, max_running=max(config.max_running, *settings.streams))
    async with chatting(config) as chats:
        info = chats.engine.model
        assert info is not None, "an engine that is ready has a model"
        per_word = await tokens_per_word(chats)
        history = await _histories(chats, settings, per_word, info.context_tokens, report)
        streams = await _streams(chats, settings, report)
    async with chatting(config) as chats:
        sessions = await _sessions(chats, settings, per_word, report)
    return {
        **describe_run(),
        "versions": describe_versions(),
        "model": info.name,
        "weights": info.weights,
        "kernels": info.kernels,
        "settings": {name: getattr(settings, name) for name in settings.__slots__},
        "history": history,
        "streams": streams,
        "sessions": sessions,
    }


async def _histories(
    chats: Chats, settings: GrowthSettings, per_word: float, context_tokens: int, report: Report
) -> list[dict[str, Any]]:
    """The first token of a whole conversation that nobody has read, and of the next turn of one that was just had."""
    cold: dict[int, list[float]] = {length: [] for length in settings.histories}
    warm: dict[int, list[float]] = {length: [] for length in settings.histories}
    prompts: dict[int, int] = {}
    await chats.ask([Turn(Role.USER, QUESTION)], None)
    for number in range(settings.repeats):
        for length in settings.histories:
            user = Namespace.user(f"reader {number} {length}")
            history = [Turn(Role.USER, text_of(min(length, context_tokens - 256), number + length, per_word))]
            first = await chats.ask(history, user, "chat")
            cold[length].append(first.ttft_ms)
            history.append(Turn(Role.ASSISTANT, first.text, first.end.token_ids))
            second = await chats.ask([*history, Turn(Role.USER, QUESTION)], user, "chat")
            warm[length].append(second.ttft_ms)
            prompts[length] = second.end.usage.input_tokens
            # What is kept of them must not fill the memory that the next ones are measured in.
            await chats.engine.drop_namespace(user)
            report(f"history of {length}")
    return [
        {"history_tokens": length, "prompt_tokens": prompts[length]}
        | _numbers("cold_ttft_ms", cold[length])
        | _numbers("warm_ttft_ms", warm[length])
        for length in settings.histories
    ]


async def _streams(chats: Chats, settings: GrowthSettings, report: Report) -> list[dict[str, Any]]:
    rates: dict[int, list[float]] = {streams: [] for streams in settings.streams}
    gaps: dict[int, list[float]] = {streams: [] for streams in settings.streams}
    await measure_streams(chats, max(settings.streams), tokens=8)
    for _ in range(settings.repeats):
        for streams in settings.streams:
            measured = await measure_streams(chats, streams, tokens=MEASURED_STREAM_TOKENS)
            rates[streams].append(measured.tokens_per_s)
            gaps[streams] += measured.gaps_ms
            report(f"{streams} streams")
    return [
        {"streams": streams}
        | _numbers("tokens_per_s", rates[streams])
        | {f"itl_p{share}_ms": round(percentile(gaps[streams], share / 100), 2) for share in (50, 99)}
        for streams in settings.streams
    ]


async def _sessions(chats: Chats, settings: GrowthSettings, per_word: float, report: Report) -> list[dict[str, Any]]:
    """More and more sessions; after each number what the tiers hold of them, and what the process has grown by."""
    await chats.ask([Turn(Role.USER, QUESTION)], None)
    resident = resident_bytes()
    texts = [text_of(settings.session_tokens, place, per_word) for place in range(max(settings.sessions))]
    rows, held = [], 0
    for number in sorted(settings.sessions):
        await first_turns(chats, texts[held:number], begin=held)
        held = number
        snapshot = await chats.engine.snapshot()
        whole = sum(session.pages.device + session.pages.host > 0 for session in snapshot.sessions)
        rows.append(
            {
                "sessions": number,
                "with_kv": whole,
                "tokens": sum(session.tokens for session in snapshot.sessions),
                "device_mib": round(snapshot.device.used_bytes / 2**20, 1),
                "host_mib": round(snapshot.host.used_bytes / 2**20, 1),
                "grown_mib": round((resident_bytes() - resident) / 2**20, 1),
            }
        )
        report(f"{number} sessions")
    return rows


def _numbers(name: str, values: Sequence[float]) -> dict[str, Any]:
    return {
        name: round(median(values), 2),
        f"{name}_spread": round(spread(values), 3),
        f"{name}_all": [round(value, 2) for value in values],
    }
