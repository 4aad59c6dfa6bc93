"""Whether the sign-in that a stream was opened with is as it was: asked once, when the stream can be ended from outside.

What ended before that was told to nobody (open-webui/open-webui#25764).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from app.realtime.hub import OpenStream

logger = structlog.stdlib.get_logger(__name__)

StillHolds = Callable[[], Awaitable[bool]]


async def end_unless_held(stream: OpenStream, still_holds: StillHolds) -> None:
    """End a stream whose sign-in has ended. For a task beside the stream's first frames: a first word does not wait for a look
    into SQL that takes as long as another server's news of a revocation."""
    try:
        holds = await still_holds()
    except Exception:
        logger.exception("sign_in_not_checked")
        holds = False
    if not holds:
        stream.end()


async def checked(checking: asyncio.Task[None]) -> None:
    """Let such a task come to its end when the stream has. A look into SQL that is cancelled on its way costs a connection."""
    await asyncio.wait([checking])
