"""Search, tags, temporary conversations and retention.

What is stored already is put into the search index by the server, a little at a time: `search_version` 0 says that it is not
there yet. Of several conversations of one person with the same `external_id`, which were possible, the one that changed last
keeps it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

FULL_TEXT = (
    "CREATE VIRTUAL TABLE search_index USING fts5(words, content='search_documents', content_rowid='number',"
    " detail=none, columnsize=0, tokenize=\"ascii tokenchars '@'\")"
)
FORGET = "INSERT INTO search_index (search_index, rowid, words) VALUES ('delete', old.number, old.words);"
LEARN = "INSERT INTO search_index (rowid, words) VALUES (new.number, new.words);"
TRIGGERS = {"insert": LEARN, "delete": FORGET, "update": FORGET + LEARN}


def upgrade() -> None:
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    with op.batch_alter_table("conversations") as batch_op:
        # A title that is there already may be somebody's own.
        batch_op.add_column(
            sa.Column("title_source", sa.String(length=16), nullable=False, server_default=sa.text("'person'"))
        )
        batch_op.add_column(sa.Column("search_version", sa.Integer(), nullable=False, server_default=sa.text("0")))
        batch_op.add_column(sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True))
    op.execute("UPDATE conversations SET title_source = 'message' WHERE title = ''")
    op.execute(
        "UPDATE conversations SET external_id = NULL WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER"
        " (PARTITION BY user_id, external_id ORDER BY updated_at DESC, id DESC) AS place FROM conversations"
        " WHERE external_id IS NOT NULL) AS ranked WHERE place > 1)"
    )
    with op.batch_alter_table("conversations") as batch_op:
        batch_op.drop_index("ix_conversations_user_id_external_id")
        batch_op.create_index("ix_conversations_user_id_external_id", ["user_id", "external_id"], unique=True)
        batch_op.create_index(
            "ix_conversations_user_id_archived_updated_at_id", ["user_id", "archived", "updated_at", "id"]
        )
        batch_op.create_index("ix_conversations_user_id_state_updated_at_id", ["user_id", "state", "updated_at", "id"])
        batch_op.create_index("ix_conversations_search_version", ["search_version"])
        batch_op.create_index(
            "ix_conversations_expires_at",
            ["expires_at"],
            sqlite_where=sa.text("expires_at IS NOT NULL"),
            postgresql_where=sa.text("expires_at IS NOT NULL"),
        )

    op.create_table(
        "conversation_tags",
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.Column("tag", sa.String(length=64), nullable=False),
        sa.Column("conversation_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_conversation_tags_conversation_id_conversations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("user_id", "tag", "conversation_id", name=op.f("pk_conversation_tags")),
    )
    with op.batch_alter_table("conversation_tags") as batch_op:
        batch_op.create_index(batch_op.f("ix_conversation_tags_conversation_id"), ["conversation_id"])
    unfold = "json_each(tags) AS t" if is_sqlite else "json_array_elements_text(tags) AS t(value)"
    op.execute(
        "INSERT INTO conversation_tags (user_id, tag, conversation_id)"
        f" SELECT DISTINCT user_id, t.value, conversations.id FROM conversations, {unfold}"
    )

    op.create_table(
        "retention_policies",
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.Column("days", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_retention_policies_user_id_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_retention_policies")),
    )

    op.create_table(
        "search_documents",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("conversation_id", sa.String(length=36), nullable=False),
        sa.Column("message_id", sa.String(length=36), nullable=True),
        sa.Column("words", sa.Text() if is_sqlite else postgresql.TSVECTOR(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_search_documents_conversation_id_conversations"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["message_id"],
            ["messages.id"],
            name=op.f("fk_search_documents_message_id_messages"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_search_documents")),
        sa.UniqueConstraint("message_id", name=op.f("uq_search_documents_message_id")),
    )
    with op.batch_alter_table("search_documents") as batch_op:
        batch_op.create_index(batch_op.f("ix_search_documents_conversation_id"), ["conversation_id"])
    if is_sqlite:
        op.execute(FULL_TEXT)
        for event, body in TRIGGERS.items():
            op.execute(
                f"CREATE TRIGGER search_documents_{event} AFTER {event.upper()} ON search_documents BEGIN {body} END"
            )
    else:
        op.create_index("search_index", "search_documents", ["words"], postgresql_using="gin")


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE search_index")
    op.drop_table("search_documents")
    op.drop_table("retention_policies")
    op.drop_table("conversation_tags")
    with op.batch_alter_table("conversations") as batch_op:
        batch_op.drop_index("ix_conversations_expires_at")
        batch_op.drop_index("ix_conversations_search_version")
        batch_op.drop_index("ix_conversations_user_id_state_updated_at_id")
        batch_op.drop_index("ix_conversations_user_id_archived_updated_at_id")
        batch_op.drop_index("ix_conversations_user_id_external_id")
        batch_op.create_index("ix_conversations_user_id_external_id", ["user_id", "external_id"])
        batch_op.drop_column("expires_at")
        batch_op.drop_column("search_version")
        batch_op.drop_column("title_source")
