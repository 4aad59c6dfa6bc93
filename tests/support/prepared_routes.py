"""What a process is forked from that is started many times: everything imported, and the routes made. Only the fork server, which
does nothing else, imports this."""

from __future__ import annotations

from app.asgi import build_routes
from app.settings import Settings
from tests.support import killable_server
from tests.support.applications import NO_PAGES

killable_server.PREPARED.append(build_routes(Settings(), NO_PAGES))
