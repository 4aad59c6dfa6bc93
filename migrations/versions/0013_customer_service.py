"""Who answers in a conversation, how that has changed, who wrote in the model's place, and texts that agents answer with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("conversations") as batch_op:
        batch_op.add_column(sa.Column("state_since", sa.DateTime(timezone=True), nullable=True))
        batch_op.add_column(sa.Column("agent_id", sa.String(length=36), nullable=True))
        batch_op.add_column(sa.Column("agent_name", sa.String(length=64), nullable=True))
        batch_op.create_foreign_key(
            batch_op.f("fk_conversations_agent_id_users"), "users", ["agent_id"], ["id"], ondelete="SET NULL"
        )
        batch_op.create_index("ix_conversations_state_state_since_id", ["state", "state_since", "id"])
        batch_op.create_index("ix_conversations_agent_id", ["agent_id"])
    with op.batch_alter_table("messages") as batch_op:
        batch_op.add_column(sa.Column("author_id", sa.String(length=36), nullable=True))
        batch_op.add_column(sa.Column("author_name", sa.String(length=64), nullable=True))
    with op.batch_alter_table("personas") as batch_op:
        batch_op.add_column(sa.Column("handoff_keywords", sa.JSON(none_as_null=True), nullable=True))

    op.create_table(
        "state_changes",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("conversation_id", sa.String(length=36), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("from_state", sa.String(length=16), nullable=False),
        sa.Column("to_state", sa.String(length=16), nullable=False),
        sa.Column("cause", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=500), nullable=True),
        sa.Column("actor_name", sa.String(length=64), nullable=True),
        sa.Column("agent_id", sa.String(length=36), nullable=True),
        sa.Column("agent_name", sa.String(length=64), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_state_changes_conversation_id_conversations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_state_changes")),
    )
    with op.batch_alter_table("state_changes") as batch_op:
        batch_op.create_index("ix_state_changes_conversation_id_number", ["conversation_id", "number"])
        batch_op.create_index("ix_state_changes_agent_id_conversation_id", ["agent_id", "conversation_id"])

    op.create_table(
        "canned_answers",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("title", sa.String(length=100), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_canned_answers")),
    )
    with op.batch_alter_table("canned_answers") as batch_op:
        batch_op.create_index("ix_canned_answers_created_at_id", ["created_at", "id"])


def downgrade() -> None:
    op.drop_table("canned_answers")
    op.drop_table("state_changes")
    with op.batch_alter_table("personas") as batch_op:
        batch_op.drop_column("handoff_keywords")
    with op.batch_alter_table("messages") as batch_op:
        batch_op.drop_column("author_name")
        batch_op.drop_column("author_id")
    op.execute("UPDATE conversations SET state = 'bot'")
    with op.batch_alter_table("conversations") as batch_op:
        batch_op.drop_index("ix_conversations_agent_id")
        batch_op.drop_index("ix_conversations_state_state_since_id")
        batch_op.drop_constraint(batch_op.f("fk_conversations_agent_id_users"), type_="foreignkey")
        batch_op.drop_column("agent_name")
        batch_op.drop_column("agent_id")
        batch_op.drop_column("state_since")
