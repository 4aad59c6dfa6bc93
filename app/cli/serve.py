"""`kvasir serve`: puts the server together, the only place that knows which engine it runs on.

    settings → data folder → database → model, as far as it can be judged → port → sign-in link → server │ model
                                                                                                         │ fetched, loaded
    with KVASIR_ENGINE=remote there is no model to judge, to fetch or to load: the engine only speaks to where it is

What can be known to be wrong is refused before the port opens, and what turns out to be wrong with the model later ends the
server: in both cases one sentence and exit code 2, and never half a server.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import click
import msgspec
import structlog

from app.asgi import create_app
from app.cli.database import open_accounts, require_only_server, upgrade_database
from app.cli.fetched_engine import FetchedEngine
from app.cli.garbage import settle
from app.cli.listen import listen
from app.cli.remote_engine import remote_engine
from app.cli.reuse import reuse_in_force
from app.cli.startup import Refused, data_option, make_data_folder, read_settings_and_origins
from app.errors import InvalidInput
from app.identifiers import UserId
from app.operations.tracing import TracingUnavailable, open_tracing
from app.server import Server
from app.settings import Settings
from engine.client import EngineClient
from engine.config import EngineConfig
from engine.errors import EngineNotReady, ModelError, ModelNotFetched
from engine.local import LocalEngine
from engine.model.registry import (
    begin_reading_weights,
    build_kernels,
    kept_weights_folder,
    model_title,
    pull_model,
    resolve_model,
)
from engine.types import EngineState

logger = structlog.stdlib.get_logger(__name__)


@click.command()
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 takes a free one.  [default: 8080]")
@data_option
@click.option("--model", help="auto, a folder with safetensors, a GGUF file, or a hub id.  [default: auto]")
def serve(host: str | None, port: int | None, data: Path | None, model: str | None) -> None:
    """Start the server.

    The first start makes the data folder, the database and the account admin (with the password in
    KVASIR_ADMIN_PASSWORD, or with none), and fetches the model. Every start prints a link that signs its reader in as
    admin, once. Pages load at once; answers begin when the model is loaded, which /readyz tells.

    Ctrl-C or SIGTERM lets running answers finish for a while; a second one ends at once.
    """
    loaded = read_settings_and_origins(host=host, port=port, data=data, model=model)
    settings = loaded.settings
    make_data_folder(settings.data)
    require_only_server(settings)
    upgrade_database(settings)
    make = remote_engine if settings.engine == "remote" else fetched_engine(settings)
    with listen(settings.host, settings.port) as listener:
        settings = msgspec.structs.replace(settings, port=listener.getsockname()[1])
        failure = asyncio.run(_serve(settings, loaded.origins, listener, make))
    if failure is not None:
        raise Refused(failure)


def models_folder(settings: Settings) -> Path:
    """Where the models of a data folder are."""
    return settings.data / "models"


def kv_folder(settings: Settings) -> Path:
    """Where the disk tier of a data folder is."""
    return settings.data / "kv"


def kernels_folder(settings: Settings) -> Path:
    """Where the kernels that were compiled for this machine are."""
    return settings.data / "kernels"


def plausible_model(settings: Settings) -> Path | None:
    """The model's folder, where it is here and whole; None where it has to be fetched.

    Raises Refused for what can be known to be wrong with it without fetching or loading it.
    """
    try:
        return resolve_model(settings.model, models_folder(settings))
    except ModelNotFetched:
        logger.info("the model has to be fetched or prepared first", model=settings.model)
        return None
    except ModelError as error:
        raise Refused(str(error)) from None


def fetched_engine(settings: Settings) -> Callable[[Settings], EngineClient]:
    """What makes the engine of this process. Raises Refused for a model that can be known to be wrong."""
    model_path = plausible_model(settings)
    # A folder that was found whole a moment ago is not looked through again: hashing the bundled model takes its time.
    return lambda chosen: FetchedEngine(
        lambda: model_path or _fetch_model(chosen), lambda path: make_engine(chosen, path)
    )


async def _serve(
    settings: Settings,
    origins: Mapping[str, str],
    listener: socket.socket,
    make: Callable[[Settings], EngineClient],
) -> str | None:
    """Serve until told to end; why it had to end by itself, as a sentence."""
    click.echo(f"Sign in: {await sign_in_link(settings)}")
    engine = make(settings)
    try:
        tracing = open_tracing(settings, os.environ)
    except TracingUnavailable as problem:
        return str(problem)
    server = Server(create_app(settings, engine, origins=origins, tracing=tracing), settings)
    watching = asyncio.create_task(_watch_loading(engine, server))
    try:
        await server.serve(sockets=[listener])
    finally:
        watching.cancel()
        await asyncio.wait([watching])
    if not server.started:
        return "the server could not start; the log above says why"
    return engine.failure if engine.state is EngineState.FAILED else None


async def sign_in_link(settings: Settings) -> str:
    """Makes the account admin where there is none, and a link that signs in as it. Raises Refused."""
    async with open_accounts(settings) as accounts:
        try:
            admin = await accounts.ensure_admin()
        except InvalidInput as problem:
            raise Refused(f"KVASIR_ADMIN_PASSWORD: {problem.detail}") from None
        return f"{settings.base_url}/?ticket={await accounts.make_sign_in_ticket(UserId(admin.id))}"


async def _watch_loading(engine: EngineClient, server: Server) -> None:
    """Say when the model is ready, and end the server when it never will be."""
    try:
        await engine.wait_ready()
    except EngineNotReady:
        server.should_exit = True
        return
    settle()
    stats = engine.stats()
    logger.info("ready", model=engine.model.name if engine.model else None)
    if stats.tier_bytes:
        logger.info("kv_reuse", **reuse_in_force(stats))


def _fetch_model(settings: Settings) -> Path:
    # Imported by the start that needs it, which is the first.
    from app.cli.pull_progress import PullProgress

    with PullProgress() as progress:
        folder = pull_model(settings.model, models_folder(settings), on_progress=progress)
        # With them the first answers are many times as quick; a later start that lacks them does not wait for them.
        build_kernels(settings.kernels, settings.weights, kernels_folder(settings), on_progress=progress)
        return folder


def make_engine(
    settings: Settings, path: Path, *, on_stage: Callable[[str], None] = lambda _stage: None
) -> LocalEngine:
    """The engine of this process, not started yet, for the model in that folder."""
    begin_reading_weights(path, models_folder(settings))
    return LocalEngine(engine_config(settings, path), on_stage=on_stage)


def engine_config(settings: Settings, path: Path) -> EngineConfig:
    """What the settings say of the engine, for the model in that folder."""
    return EngineConfig(
        model_path=path,
        model_name=model_title(settings.model),
        weights=settings.weights,
        kv_dtype=settings.kv_dtype,
        kernels=settings.kernels,
        kernels_folder=kernels_folder(settings),
        kept_weights_folder=kept_weights_folder(path, models_folder(settings)),
        threads=settings.threads or None,
        kv_memory_bytes=settings.kv_memory_mib << 20,
        max_step_tokens=settings.max_step_tokens,
        max_running=settings.max_running,
        max_waiting=settings.max_waiting,
        max_waiting_tokens=settings.max_waiting_tokens,
        batch_window_ms=settings.batch_window_ms,
        inter_token_target_ms=settings.inter_token_target_ms,
        kv_reserve=settings.kv_reserve,
        system_prompt=settings.system_prompt,
        speculation_tokens=settings.speculation_tokens,
        reuse=settings.prefix_cache,
        host_memory_bytes=settings.kv_host_mib << 20,
        disk_folder=kv_folder(settings) if settings.kv_disk_mib else None,
        disk_bytes=settings.kv_disk_mib << 20,
        prefix_memory_bytes=settings.kv_prefix_mib << 20,
        session_device_s=settings.session_device_s,
        session_host_s=settings.session_host_s,
        session_ttl_s=settings.session_ttl_s,
        transfer_timeout_s=settings.kv_transfer_timeout_s,
        save_s=settings.kv_save_s,
    )
