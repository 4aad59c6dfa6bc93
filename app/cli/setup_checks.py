"""Doctor's checks of the setup: data folder, database, Redis, model and port."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import httpx

from app.cli.database import database_differences
from app.cli.findings import Finding, Verdict, good, warning, wrong
from app.cli.remote_engine import check_remote_engine
from app.cli.reuse import check_reuse
from app.cli.startup import Refused
from app.settings import DATABASE_FILE, Settings
from engine.errors import ModelError, ModelNotFetched
from engine.model.registry import resolve_model


def check_setup(settings: Settings) -> list[Finding]:
    """All of them; where the data folder is wrong, nothing in it can be judged."""
    data_folder = check_data_folder(settings.data)
    if data_folder.verdict is Verdict.WRONG:
        return [data_folder, check_port(settings)]
    return [
        data_folder,
        check_database(settings),
        *([check_redis(settings)] if settings.redis_url else []),
        *(
            [check_remote_engine(settings)]
            if settings.engine == "remote"
            else [check_model(settings.model, settings.data / "models"), check_reuse(settings)]
        ),
        check_port(settings),
    ]


def check_data_folder(folder: Path) -> Finding:
    """Where everything is kept."""
    try:
        return _judged_folder(folder)
    except PermissionError:
        return wrong(
            "data folder",
            f"{folder} lies where this user may not look",
            "Choose another one with --data or KVASIR_DATA.",
        )


def _judged_folder(folder: Path) -> Finding:
    if folder.is_dir():
        if os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            return good("data folder", str(folder.resolve()))
        return wrong(
            "data folder", f"{folder} cannot be written to", f"Give this user the folder: chown -R $(whoami) {folder}"
        )
    if folder.exists():
        return wrong("data folder", f"{folder} is not a folder", "Choose another one with --data or KVASIR_DATA.")
    parent = next(parent for parent in folder.resolve().parents if parent.exists())
    if not os.access(parent, os.W_OK | os.X_OK):
        return wrong(
            "data folder", f"{folder} cannot be made in {parent}", "Choose another one with --data or KVASIR_DATA."
        )
    return good("data folder", f"{folder} does not exist yet; `kvasir serve` makes it")


def check_database(settings: Settings) -> Finding:
    """Reachable, and at this version's schema."""
    is_new = not settings.database_url and not (settings.data / DATABASE_FILE).exists()
    if is_new:
        return good("database", "there is none yet; `kvasir serve` makes it")
    if not settings.database_url and not os.access(settings.data / DATABASE_FILE, os.R_OK | os.W_OK):
        return wrong(
            "database",
            f"{settings.data / DATABASE_FILE} cannot be written to",
            f"Give this user the folder: chown -R $(whoami) {settings.data}",
        )
    try:
        differences = database_differences(settings)
    except Refused as refusal:
        fix = (
            "Check KVASIR_DATABASE_URL, and that the database runs."
            if settings.database_url
            else "Put a backup of it in its place, or choose another data folder with --data or KVASIR_DATA."
        )
        return wrong("database", refusal.message, fix)
    if differences:
        return wrong(
            "database",
            "; ".join(differences),
            "Run `kvasir db upgrade` where an older version made it; else use the version that made it, or a backup.",
        )
    return good("database", "reachable, and at this version's schema")


def check_redis(settings: Settings) -> Finding:
    """Reachable, and keeping what it is given."""
    # Imported by who has one.
    from app.replicas.redis_probe import NEEDED_POLICY, evicting_policy, redis_problem

    if (problem := redis_problem(settings.redis_url)) is not None:
        return wrong("redis", f"does not answer: {problem}", "Check KVASIR_REDIS_URL, and that Redis runs.")
    if settings.effective_database_url.startswith("sqlite"):
        return warning(
            "redis", "reachable; SQLite is for one server alone", "Set KVASIR_DATABASE_URL to PostgreSQL, or no Redis."
        )
    if (policy := evicting_policy(settings.redis_url)) is not None:
        return warning(
            "redis",
            f"reachable; when it is full it throws away what it was given ({policy})",
            f"Set its maxmemory-policy to {NEEDED_POLICY}.",
        )
    return good("redis", "reachable; servers with the same one and the same database work together")


def check_model(name: str, models: Path) -> Finding:
    """Here and whole; of the bundled one the sha256 is compared."""
    try:
        return good("model", f"{name}: {resolve_model(name, models)}")
    except ModelNotFetched as error:
        return warning("model", str(error), "`kvasir serve` does it too, at its start.")
    except ModelError as error:
        return wrong("model", str(error), "Choose another one with --model or KVASIR_MODEL.")


def check_port(settings: Settings) -> Finding:
    """Free, or taken by a Kvasir server."""
    host, port = settings.host, settings.port
    where = f"{host}:{port}"
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        return wrong(
            "port", f"{host!r} is no address of this machine: {error}", "Set KVASIR_HOST to 127.0.0.1 or 0.0.0.0."
        )
    family, kind, protocol, _, address = addresses[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return wrong(
                    "port", f"{where} cannot be opened: {error.strerror}", "Set KVASIR_HOST and KVASIR_PORT to others."
                )
            if _kvasir_answers(settings.local_url):
                return good("port", f"a Kvasir server answers at {where}")
            return wrong(
                "port", f"{where} is used by another program", "Choose another one with --port or KVASIR_PORT."
            )
    return good("port", f"{where} is free")


def _kvasir_answers(url: str) -> bool:
    try:
        return bool(httpx.get(f"{url}/healthz", timeout=2, trust_env=False).json() == {"status": "ok"})
    except (httpx.HTTPError, ValueError):
        return False
