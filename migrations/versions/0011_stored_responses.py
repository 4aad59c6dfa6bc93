"""Responses that programs keep, to go on from them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "openai_responses",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.Column("key_id", sa.String(length=36), nullable=True),
        sa.Column("customer", sa.Text(), nullable=True),
        sa.Column("previous_id", sa.String(length=64), nullable=True),
        sa.Column("root_id", sa.String(length=64), nullable=False),
        sa.Column("input", sa.JSON(), nullable=False),
        sa.Column("output", sa.Text(), nullable=False),
        sa.Column("token_ids", sa.LargeBinary(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_openai_responses_user_id_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_openai_responses")),
    )
    with op.batch_alter_table("openai_responses") as batch_op:
        batch_op.create_index("ix_openai_responses_root_id_created_at", ["root_id", "created_at"])
        batch_op.create_index("ix_openai_responses_user_id", ["user_id"])


def downgrade() -> None:
    with op.batch_alter_table("openai_responses") as batch_op:
        batch_op.drop_index("ix_openai_responses_user_id")
        batch_op.drop_index("ix_openai_responses_root_id_created_at")

    op.drop_table("openai_responses")
