"""Applications whose routes are made once and live many lives: making them takes five times as long as opening everything else
that a test's application has."""

from __future__ import annotations

from collections import deque
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

KEPT_MAX = 12
"""Applications that wait for another life; each takes 5 MiB. Those that have waited longest go."""

_Key = tuple[bytes, Path]


@cache
def _waiting() -> deque[tuple[_Key, Litestar]]:
    """Routes that live nowhere at the moment, with all they were made of."""
    return deque(maxlen=KEPT_MAX)


def _made_of(settings: Settings, web_folder: Path) -> _Key:
    # Where the data is, is the one thing that is another in every test, and that no route is made of.
    same = msgspec.structs.replace(settings, data=Path(), database_url="", redis_url="")
    return msgspec.json.encode(same, enc_hook=str), web_folder


def _taken(key: _Key) -> Litestar | None:
    for place, (made_of, app) in enumerate(_waiting()):
        if made_of == key:
            del _waiting()[place]
            return app
    return None


@contextmanager
def application(
    settings: Settings, engine: EngineClient, *, web_folder: Path | None = None, **parts: Any
) -> Iterator[Litestar]:
    """An application with routes as `create_app` makes them. Those of a test that fails are not used again."""
    folder = web_folder or NO_PAGES
    key = _made_of(settings, folder)
    app = _taken(key) or build_routes(settings, folder)
    run_with(app, settings, engine, **parts)
    yield app
    if "context" in app.state:
        del app.state.context
    _waiting().append((key, app))
