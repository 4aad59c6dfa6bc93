"""The route `/ws`: who may open a socket, and what one is made of.

A page of somebody else is refused before the upgrade (403), because a browser sends the cookie along by itself. Everything else
is told after it, by a close code, because before it a browser shows its page nothing at all.
"""

from __future__ import annotations

from typing import Any

import structlog
from litestar import WebSocket, websocket
from litestar.datastructures import State

from app.context import AppContext
from app.errors import Forbidden, Unauthenticated, Unavailable
from app.realtime.connection import Connection, ConnectionLimits
from app.realtime.protocol import CloseCode
from app.realtime.socket_writer import SocketWriter
from app.responses.commands import SocketCommands
from app.usage.limits import Spender

logger = structlog.stdlib.get_logger(__name__)

AnySocket = WebSocket[Any, Any, State]


@websocket("/ws")
async def open_socket(socket: AnySocket) -> None:
    """See `app/realtime/README.md` for the frames."""
    context: AppContext = socket.app.state.context
    try:
        await _open(socket, context)
    except Unavailable:
        # Without a database nobody can be known.
        await _refuse(socket, CloseCode.OVERLOADED, "unavailable")
    except OSError:
        # The other side went away during the handshake.
        logger.debug("socket_lost")
    except Exception:
        logger.exception("socket_failed")
        await _refuse(socket, CloseCode.INTERNAL, "the server failed")


async def _open(socket: AnySocket, context: AppContext) -> None:
    try:
        caller = await context.authenticator.identify(
            socket, check_origin=True, ticket=socket.query_params.get("ticket")
        )
    except Forbidden:
        await socket.close(CloseCode.ORIGIN, "origin")
        return
    except Unauthenticated:
        await _refuse(socket, CloseCode.UNAUTHENTICATED, "unauthenticated")
        return
    if context.readiness.draining:
        await _refuse(socket, CloseCode.DRAINING, "draining")
        return
    if context.hub.open_sockets >= context.settings.sockets_max:
        context.metrics.rejected("sockets")
        await _refuse(socket, CloseCode.OVERLOADED, "too many sockets")
        return
    settings = context.settings
    writer = SocketWriter(
        context.hub,
        context.reader.stored_log,
        socket.send_text,
        socket.close,
        outbox_max_frames=settings.outbox_max_frames,
        send_timeout_s=settings.send_timeout_s,
    )
    connection = Connection(
        caller.user_id,
        caller.credential_id,
        context.hub,
        writer,
        SocketCommands(
            caller,
            writer,
            context.hub,
            settings,
            context.conversations,
            context.turns,
            context.reader,
            context.desk,
            context.feedback,
        ),
        socket.receive,
        ConnectionLimits(
            frames_per_second=settings.frames_per_second,
            idle_s=settings.socket_idle_s,
            expires_in_s=caller.seconds_left(context.now()),
        ),
        context.monotonic,
    )
    limits = await context.quotas.limits(Spender(caller.user_id, caller.key_id).subjects)
    # Without a pause until it is one of them, so that of many that come at once no more get through than may.
    for subject, limit in limits.items():
        if limit.sockets and context.hub.sockets_of(subject.id) >= limit.sockets:
            context.metrics.rejected("quota_sockets")
            await _refuse(socket, CloseCode.TOO_MANY_REQUESTS, "too many sockets of this account or key")
            return
    # From here on whoever ends the sign-in can close the socket; what ended before that is seen now.
    context.hub.add_socket(connection)
    try:
        if not await context.accounts.still_holds(caller):
            await _refuse(socket, CloseCode.UNAUTHENTICATED, "revoked")
            return
        await socket.accept()
        context.metrics.socket_opened()
        try:
            await connection.serve()
        finally:
            context.metrics.socket_closed()
    finally:
        context.hub.remove_socket(connection)


async def _refuse(socket: AnySocket, code: CloseCode, reason: str) -> None:
    """Say why there is no socket, in the only way a browser lets its page see."""
    try:
        if socket.connection_state in ("init", "connect"):
            await socket.accept()
        await socket.close(code, reason)
    except (OSError, RuntimeError):
        logger.debug("socket_lost")
