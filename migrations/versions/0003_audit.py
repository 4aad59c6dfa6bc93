"""The audit log: what administrators did, kept whatever becomes of the accounts it tells of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit_entries",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor_id", sa.String(length=36), nullable=True),
        sa.Column("actor_name", sa.String(length=64), nullable=False),
        sa.Column("key_id", sa.String(length=36), nullable=True),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("target_id", sa.String(length=255), nullable=True),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_entries")),
    )
    with op.batch_alter_table("audit_entries") as batch_op:
        batch_op.create_index("ix_audit_entries_created_at_id", ["created_at", "id"])
        batch_op.create_index("ix_audit_entries_actor_id_created_at_id", ["actor_id", "created_at", "id"])
        batch_op.create_index("ix_audit_entries_target_id_created_at_id", ["target_id", "created_at", "id"])


def downgrade() -> None:
    with op.batch_alter_table("audit_entries") as batch_op:
        batch_op.drop_index("ix_audit_entries_target_id_created_at_id")
        batch_op.drop_index("ix_audit_entries_actor_id_created_at_id")
        batch_op.drop_index("ix_audit_entries_created_at_id")

    op.drop_table("audit_entries")
