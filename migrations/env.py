"""What Alembic runs for every command: it migrates on the connection that `app.migrate` has opened, locked and will commit."""

from __future__ import annotations

from typing import Any

from alembic import context

from app.database import UTCDateTime
from app.tables import METADATA


def render_item(kind: str, item: Any, autogen_context: Any) -> str | bool:
    """Revisions name only SQLAlchemy's own types, so that an old one works whatever becomes of ours."""
    if kind == "type" and isinstance(item, UTCDateTime):
        return "sa.DateTime(timezone=True)"
    return False


connection = context.config.attributes.get("connection")
if connection is None:
    raise RuntimeError("expected a connection from app.migrate; Alembic's own command line is not used here")

context.configure(
    connection=connection,
    target_metadata=METADATA,
    # SQLite can change hardly anything of a table in place.
    render_as_batch=True,
    render_item=render_item,
    include_name=context.config.attributes["include_name"],
)
with context.begin_transaction():
    context.run_migrations()
