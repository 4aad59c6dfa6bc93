"""Personas, and the name of one beside each conversation that has begun with it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "personas",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("system_prompt", sa.Text(), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_personas")),
    )
    with op.batch_alter_table("personas") as batch_op:
        batch_op.create_index("ix_personas_created_at_name", ["created_at", "name"])

    with op.batch_alter_table("conversations") as batch_op:
        batch_op.add_column(sa.Column("persona", sa.String(length=64), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("conversations") as batch_op:
        batch_op.drop_column("persona")

    with op.batch_alter_table("personas") as batch_op:
        batch_op.drop_index("ix_personas_created_at_name")

    op.drop_table("personas")
