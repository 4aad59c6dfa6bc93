"""The engine where the model runs on other machines: what the settings say of it, and whether it is there.

Used by `kvasir serve` and `kvasir doctor`; only the command line knows which engine it is.
"""

from __future__ import annotations

import asyncio

from app.cli.findings import Finding, good, warning, wrong
from app.settings import Settings
from engine.client import EngineClient
from engine.remote.config import RemoteConfig
from engine.remote.dialect import Dialect


def remote_engine(settings: Settings) -> EngineClient:
    """The engine, not started yet."""
    # Its HTTP client takes a tenth of a second that no other start should wait for.
    from engine.remote.client import RemoteEngine

    return RemoteEngine(remote_config(settings))


def remote_config(settings: Settings) -> RemoteConfig:
    """What the settings say of it."""
    return RemoteConfig(
        url=settings.engine_url,
        api_key=settings.engine_api_key,
        model=settings.engine_model,
        dialect=None if settings.engine_dialect == "auto" else Dialect(settings.engine_dialect),
        context_tokens=settings.engine_context_tokens,
        session_header=settings.engine_session_header,
        secret=settings.engine_secret,
        folder=settings.data / "remote",
        connect_timeout_s=settings.engine_connect_timeout_s,
        first_token_timeout_s=settings.engine_first_token_timeout_s,
        silence_timeout_s=settings.engine_silence_timeout_s,
        retries=settings.engine_retries,
        probe_every_s=settings.engine_probe_s,
        away_wait_s=settings.engine_away_wait_s,
        max_running=settings.max_running,
        max_waiting=settings.max_waiting,
        max_waiting_tokens=settings.max_waiting_tokens,
        session_ttl_s=settings.session_ttl_s,
    )


def check_remote_engine(settings: Settings) -> Finding:
    """Reachable, and with a model that can be asked."""
    from engine.remote.probe import Unusable, found
    from engine.remote.refusal import RemoteRefusal
    from engine.remote.server import RemoteServer

    config = remote_config(settings)

    async def look() -> str:
        server = RemoteServer(config)
        try:
            seen = found(config, await server.models())
        finally:
            await server.close()
        context = f"{seen.model.context_tokens} tokens" if seen.model.context_tokens else "a context it does not tell"
        if seen.dialect is Dialect.OPENAI:
            raise NoSalt(f"{seen.model.name} at {config.api_url}, {context}; it keeps nobody's cache from another's")
        return f"{seen.model.name} at {config.api_url} ({seen.dialect}), {context}"

    try:
        return good("engine", asyncio.run(look()))
    except NoSalt as problem:
        return warning(
            "engine", str(problem), "Use one that takes a cache salt where people must not guess each other's words."
        )
    except Unusable as problem:
        return wrong("engine", str(problem), "See KVASIR_ENGINE_… in `kvasir config`.")
    except RemoteRefusal as problem:
        return wrong(
            "engine",
            problem.message.rstrip("."),
            "Check KVASIR_ENGINE_URL and KVASIR_ENGINE_API_KEY, and that it runs.",
        )


class NoSalt(Exception):
    """It works, and shares its cache between people."""
