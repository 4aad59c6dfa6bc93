"""The start that `kvasir doctor --startup` measures: what `kvasir serve` does, in its order, without a port and without visitors.

Run in a process of its own by `startup_report`, with a temporary data folder as its only argument. Writes one line of JSON to
standard output: when each stage began, on the clock that all processes of a machine share. What this module imports is what
`kvasir serve` imports, and counts as a stage.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from app.asgi import create_app
from app.cli import serve
from app.cli.database import require_only_server, upgrade_database
from app.cli.fetched_engine import FetchedEngine
from app.cli.startup import Refused, read_settings
from app.server import Server
from app.settings import Settings
from engine.client import EngineClient, EventListener
from engine.errors import EngineNotReady
from engine.types import (
    EngineEvent,
    Finished,
    GenerationRequest,
    RequestId,
    Role,
    SamplingParams,
    TextDelta,
    Turn,
)

PATH: Final = "/healthz"
QUESTION: Final = "What is the capital of France?"
QUESTION_ID: Final = RequestId("startup")
ANSWER_TOKENS: Final = 8
"""Enough for words: some first tokens are half a character."""

Begin = Callable[[str], None]
"""Called with the name of each stage when it begins, in any thread."""


def main(began: float) -> None:
    """`began` is when Python had started. Ends the process with one sentence and its code where a server could not start."""
    stages = [("starting Python", began), ("importing the server", began)]

    def begin(stage: str) -> None:
        stages.append((stage, time.monotonic()))

    try:
        moments = _start(Path(sys.argv[1]), begin)
    except Refused as refusal:
        refusal.show()
        sys.exit(refusal.exit_code)
    click.echo(json.dumps({"stages": [stage for stage in stages if stage[0] != "ready"], **moments}))


def _start(folder: Path, begin: Begin) -> dict[str, float]:
    """As `kvasir serve`. The moments in which the server answered, was ready, and said its first words."""
    begin("reading the settings")
    settings = read_settings(log_level="warning")
    settings = msgspec.structs.replace(settings, data=folder, database_url="", admin_password="")
    begin("opening the database")
    require_only_server(settings)
    upgrade_database(settings)
    begin("looking at the model")
    if settings.engine == "remote":
        raise Refused("the model is on another server, so there is no start of it to be measured")
    model_path = serve.plausible_model(settings)
    if model_path is None:
        raise Refused(
            f"{settings.model} is not here yet, so its start cannot be measured; `kvasir model pull` fetches it"
        )
    begin("making the sign-in link")
    moments = asyncio.run(_serve(settings, model_path, begin))
    if isinstance(moments, str):
        raise Refused(moments)
    return moments


async def _serve(settings: Settings, model_path: Path, begin: Begin) -> dict[str, float] | str:
    """The moments, or why there are none: what is raised inside a lifespan comes out of it in a group."""
    await serve.sign_in_link(settings)
    begin("building the application")
    engine = _TalkingEngine(lambda: model_path, lambda path: serve.make_engine(settings, path, on_stage=begin))
    application = create_app(settings, engine)
    Server(application, settings)
    begin("opening the application")
    async with application.lifespan():
        status = await _get(application)
        answers = time.monotonic()
        if status != 200:
            return f"the server answered {PATH} with {status}, where 200 was expected"
        try:
            await engine.wait_ready()
            ready = time.monotonic()
            await _ask(engine)
        except EngineNotReady as problem:
            return engine.failure or str(problem)
        await engine.heard.wait()
        return {"answers": answers, "ready": ready, "first_words": time.monotonic()}


class _TalkingEngine(FetchedEngine):
    """Keeps the events of our own question from the application, which knows nothing of it."""

    def __init__(self, fetch: Callable[[], Path], make: Callable[[Path], EngineClient]) -> None:
        super().__init__(fetch, make)
        self.heard = asyncio.Event()

    async def start(self, listener: EventListener) -> None:
        await super().start(lambda events: listener(self._others(events)))

    def _others(self, events: Sequence[EngineEvent]) -> Sequence[EngineEvent]:
        ours = [event for event in events if event.request_id == QUESTION_ID]
        if any(isinstance(event, (TextDelta, Finished)) for event in ours):
            self.heard.set()
        return [event for event in events if event.request_id != QUESTION_ID]


async def _get(application: Any) -> int:
    """The status of one request, handed over as the HTTP server would."""
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": PATH,
        "raw_path": PATH.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 0),
    }
    await application(scope, receive, send)
    return statuses[0]


async def _ask(engine: EngineClient) -> None:
    sampling = SamplingParams(temperature=0.0, max_tokens=ANSWER_TOKENS, min_tokens=1)
    await engine.submit(GenerationRequest(QUESTION_ID, (Turn(Role.USER, QUESTION),), sampling))
