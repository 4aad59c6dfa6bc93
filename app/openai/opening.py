"""Puts this room together for one server process.

In two steps, because the engine's events are listened to from its start on, and everything else is made after it: `open_calls`
before the engine starts, `OpenAI.of` when the rest is there. At the end the engine ends every call, and then what they have cost
is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.clock import Monotonic, Now
from app.database import Database
from app.openai.admission import CallAdmission
from app.openai.calls import Calls
from app.openai.model_names import ModelNames
from app.openai.responses import Responses
from app.openai.service import ChatCompletions
from app.operations.health import Readiness
from app.operations.metrics import Metrics
from app.operations.tracing import Tracing
from app.personas.service import PersonaService
from app.settings import Settings
from app.usage.late_records import LateRecords
from app.usage.quotas import QuotaService
from engine.client import EngineClient


@dataclass(frozen=True, slots=True)
class OpenAI:
    """The open room."""

    calls: Calls
    models: ModelNames
    completions: ChatCompletions
    responses: Responses

    @classmethod
    def of(
        cls,
        settings: Settings,
        database: Database,
        engine: EngineClient,
        calls: Calls,
        personas: PersonaService,
        quotas: QuotaService,
        readiness: Readiness,
        metrics: Metrics,
        *,
        monotonic: Monotonic,
        now: Now,
    ) -> OpenAI:
        """Around the calls that are open already."""
        models = ModelNames(engine, personas, now())
        admission = CallAdmission(engine, calls, quotas, readiness, metrics, monotonic=monotonic)
        return cls(
            calls,
            models,
            ChatCompletions(settings, models, admission, calls.answers, now=now),
            Responses(settings, database, engine, models, admission, calls.answers, now=now),
        )


@asynccontextmanager
async def open_calls(
    engine: EngineClient, database: Database, metrics: Metrics, tracing: Tracing, *, monotonic: Monotonic, now: Now
) -> AsyncIterator[Calls]:
    """Until the block ends, which is after the engine's end."""
    records = LateRecords(database)
    writing = asyncio.create_task(records.run())
    calls = Calls(engine, records, metrics, tracing, monotonic=monotonic, now=now)
    try:
        yield calls
    finally:
        await calls.close()
        await records.close(writing)
