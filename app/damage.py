"""What is wrong inside a database that fits this version: pages that cannot be read, and rows that refer to nothing.

Called by `kvasir db check`, also while a server runs: it reads one snapshot and changes nothing. Damage of this kind comes from a
disk, from a copy that was made without `kvasir backup`, or from a hand in the tables; the server itself never writes such rows.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, NullPool, create_engine, func, select
from sqlalchemy.exc import DatabaseError
from sqlalchemy.orm import aliased

from app.conversations.models import Conversation, Message, MessageStatus
from app.migrate import sync_url
from app.responses.models import Response, ResponseLog

FOUND_MAX = 10
"""Of a kind. A damaged file may have thousands, and the first ones say what it is."""

UNFINISHED = [status.value for status in MessageStatus if not status.is_final]


def damages(url: str) -> list[str]:
    """One sentence for each thing that is wrong; empty when the database is whole."""
    engine = create_engine(sync_url(url), poolclass=NullPool)
    try:
        with engine.connect() as connection:
            if engine.dialect.name == "sqlite" and (broken := _broken_file(connection)):
                # Whatever is read of such a file may be wrong.
                return broken
            return _missing_rows(connection)
    except DatabaseError as problem:
        if engine.dialect.name != "sqlite":
            raise
        return [f"the file {Path(engine.url.database or '')} cannot be read whole: {problem.orig}"]
    finally:
        engine.dispose()


def _broken_file(connection: Connection) -> list[str]:
    found = [row[0] for row in connection.exec_driver_sql(f"PRAGMA integrity_check({FOUND_MAX})")]
    if found != ["ok"]:
        return [f"the file is damaged: {sentence}" for sentence in found]
    orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(FOUND_MAX)
    return [f"row {row[1]} of {row[0]} refers to one of {row[2]} that is not there" for row in orphans]


def _missing_rows(connection: Connection) -> list[str]:
    """What no foreign key holds."""
    parent = aliased(Message)
    kinds = {
        "conversation {} says that it goes on at a message that is not there": select(Conversation.id).where(
            Conversation.leaf_id.is_not(None),
            ~select(Message.id)
            .where(Message.id == Conversation.leaf_id, Message.conversation_id == Conversation.id)
            .exists(),
        ),
        "message {} follows one of another conversation": select(Message.id)
        .join(parent, parent.id == Message.parent_id)
        .where(parent.conversation_id != Message.conversation_id),
        "answer {} has ended and has no event log": select(Response.id).where(
            Response.status.not_in(UNFINISHED),
            ~select(ResponseLog.response_id).where(ResponseLog.response_id == Response.id).exists(),
        ),
        "answer {} and its message do not say the same of how it ended": select(Response.id)
        .join(Message, Message.id == Response.message_id)
        .where(Response.status.not_in(UNFINISHED), Message.status != Response.status),
        "conversation {} has a message behind its last one": select(Message.conversation_id)
        .join(Conversation, Conversation.id == Message.conversation_id)
        .group_by(Message.conversation_id, Conversation.last_ordinal)
        .having(func.max(Message.ordinal) > Conversation.last_ordinal),
    }
    return [
        sentence.format(found)
        for sentence, statement in kinds.items()
        for found in connection.scalars(statement.limit(FOUND_MAX))
    ]
