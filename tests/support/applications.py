"""Applications whose routes are made once and live many lives: making them takes five times as long as opening everything else
that a test's application has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from litestar import Litestar

from app.asgi import build_routes, run_with
from app.settings import Settings
from engine.client import EngineClient

NO_PAGES = Path(__file__).parent / "no pages"
"""A folder that is not there: an application without its pages."""

_Key = tuple[bytes, Path]


@cache
def _unused() -> dict[_Key, list[Litestar]]:
    """Routes that live nowhere at the moment, by all they were made of."""
    return {}


def _made_of(settings: Settings, web_folder: Path) -> _Key:
    # Where the data is, is the one thing that is another in every test, and that no route is made of.
    same = msgspec.structs.replace(settings, data=Path(), database_url="", redis_url="")
    return msgspec.json.encode(same, enc_hook=str), web_folder


@contextmanager
def application(
    settings: Settings, engine: EngineClient, *, web_folder: Path | None = None, **parts: Any
) -> Iterator[Litestar]:
    """An application with routes as `create_app` makes them. Those of a test that fails are not used again."""
    folder = web_folder or NO_PAGES
    unused = _unused().setdefault(_made_of(settings, folder), [])
    app = unused.pop() if unused else build_routes(settings, folder)
    run_with(app, settings, engine, **parts)
    yield app
    if "context" in app.state:
        del app.state.context
    unused.append(app)
