"""The first schema: people and their credentials, conversations as trees of messages, answers and their event logs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "users",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("username", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("password_hash", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("username", name=op.f("uq_users_username")),
    )
    op.create_table(
        "conversations",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.Column("title", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("archived", sa.Boolean(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("external_id", sa.String(length=255), nullable=True),
        sa.Column("leaf_id", sa.String(length=36), nullable=True),
        sa.Column("last_ordinal", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_conversations_user_id_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conversations")),
    )
    with op.batch_alter_table("conversations") as batch_op:
        batch_op.create_index("ix_conversations_user_id_external_id", ["user_id", "external_id"])
        batch_op.create_index("ix_conversations_user_id_updated_at_id", ["user_id", "updated_at", "id"])

    op.create_table(
        "credentials",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.Column("issuer_id", sa.String(length=36), nullable=True),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["issuer_id"], ["credentials.id"], name=op.f("fk_credentials_issuer_id_credentials"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_credentials_user_id_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_credentials")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_credentials_secret_hash")),
    )
    with op.batch_alter_table("credentials") as batch_op:
        batch_op.create_index("ix_credentials_expires_at", ["expires_at"])
        batch_op.create_index(batch_op.f("ix_credentials_issuer_id"), ["issuer_id"])
        batch_op.create_index("ix_credentials_user_id_kind", ["user_id", "kind"])

    op.create_table(
        "idempotency_records",
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("request_hash", sa.String(length=64), nullable=False),
        sa.Column("status_code", sa.Integer(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("conversation_id", sa.String(length=36), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_idempotency_records_user_id_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("user_id", "key", name=op.f("pk_idempotency_records")),
    )
    with op.batch_alter_table("idempotency_records") as batch_op:
        batch_op.create_index(batch_op.f("ix_idempotency_records_conversation_id"), ["conversation_id"])
        batch_op.create_index("ix_idempotency_records_created_at", ["created_at"])

    op.create_table(
        "messages",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("conversation_id", sa.String(length=36), nullable=False),
        sa.Column("parent_id", sa.String(length=36), nullable=True),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("client_message_id", sa.String(length=128), nullable=True),
        sa.Column("response_id", sa.String(length=36), nullable=True),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("token_ids", sa.LargeBinary(), nullable=True),
        sa.Column("usage", sa.JSON(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_messages_conversation_id_conversations"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["parent_id"], ["messages.id"], name=op.f("fk_messages_parent_id_messages")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
        sa.UniqueConstraint(
            "conversation_id", "client_message_id", name=op.f("uq_messages_conversation_id_client_message_id")
        ),
        sa.UniqueConstraint("conversation_id", "ordinal", name=op.f("uq_messages_conversation_id_ordinal")),
    )
    with op.batch_alter_table("messages") as batch_op:
        batch_op.create_index("ix_messages_parent_id_conversation_id", ["parent_id", "conversation_id"])

    op.create_table(
        "responses",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("conversation_id", sa.String(length=36), nullable=False),
        sa.Column("parent_id", sa.String(length=36), nullable=False),
        sa.Column("message_id", sa.String(length=36), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("finish_reason", sa.String(length=16), nullable=True),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("usage", sa.JSON(), nullable=True),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("owner", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_responses_conversation_id_conversations"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["message_id"], ["messages.id"], name=op.f("fk_responses_message_id_messages"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["parent_id"], ["messages.id"], name=op.f("fk_responses_parent_id_messages"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_responses")),
    )
    with op.batch_alter_table("responses") as batch_op:
        batch_op.create_index("ix_responses_conversation_id_status", ["conversation_id", "status"])
        batch_op.create_index(batch_op.f("ix_responses_message_id"), ["message_id"])
        batch_op.create_index("ix_responses_owner_status", ["owner", "status"])
        batch_op.create_index(batch_op.f("ix_responses_parent_id"), ["parent_id"])

    op.create_table(
        "response_logs",
        sa.Column("response_id", sa.String(length=36), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("frames", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["response_id"], ["responses.id"], name=op.f("fk_response_logs_response_id_responses"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("response_id", name=op.f("pk_response_logs")),
    )


def downgrade() -> None:
    op.drop_table("response_logs")
    with op.batch_alter_table("responses") as batch_op:
        batch_op.drop_index(batch_op.f("ix_responses_parent_id"))
        batch_op.drop_index("ix_responses_owner_status")
        batch_op.drop_index(batch_op.f("ix_responses_message_id"))
        batch_op.drop_index("ix_responses_conversation_id_status")

    op.drop_table("responses")
    with op.batch_alter_table("messages") as batch_op:
        batch_op.drop_index("ix_messages_parent_id_conversation_id")

    op.drop_table("messages")
    with op.batch_alter_table("idempotency_records") as batch_op:
        batch_op.drop_index("ix_idempotency_records_created_at")
        batch_op.drop_index(batch_op.f("ix_idempotency_records_conversation_id"))

    op.drop_table("idempotency_records")
    with op.batch_alter_table("credentials") as batch_op:
        batch_op.drop_index("ix_credentials_user_id_kind")
        batch_op.drop_index(batch_op.f("ix_credentials_issuer_id"))
        batch_op.drop_index("ix_credentials_expires_at")

    op.drop_table("credentials")
    with op.batch_alter_table("conversations") as batch_op:
        batch_op.drop_index("ix_conversations_user_id_updated_at_id")
        batch_op.drop_index("ix_conversations_user_id_external_id")

    op.drop_table("conversations")
    op.drop_table("users")
