"""`/api/v1/admin/…`: what is for administrators only. The guard is here, once, for everything below."""

from __future__ import annotations

from litestar import Router

from app.admin import conversations, keys, users
from app.audit import routes as audit
from app.route_guards import admins_only


def router() -> Router:
    """The routes, for one application."""
    return Router(
        "/admin",
        guards=[admins_only],
        route_handlers=[audit.router(), conversations.router(), keys.router(), users.router()],
        tags=["Administration"],
    )
