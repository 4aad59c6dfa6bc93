"""API keys are credentials too: they have a name and need not end. When a credential was last used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("credentials") as batch_op:
        batch_op.add_column(sa.Column("label", sa.String(length=200), nullable=True))
        batch_op.add_column(sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True))
        batch_op.alter_column("expires_at", existing_type=sa.DateTime(timezone=True), nullable=True)
    with op.batch_alter_table("users") as batch_op:
        batch_op.create_index("ix_users_created_at_id", ["created_at", "id"])


def downgrade() -> None:
    with op.batch_alter_table("users") as batch_op:
        batch_op.drop_index("ix_users_created_at_id")
    # The first schema knows neither the kind nor a credential without an end.
    op.execute("DELETE FROM credentials WHERE kind = 'api_key' OR expires_at IS NULL")
    with op.batch_alter_table("credentials") as batch_op:
        batch_op.alter_column("expires_at", existing_type=sa.DateTime(timezone=True), nullable=False)
        batch_op.drop_column("last_used_at")
        batch_op.drop_column("label")
