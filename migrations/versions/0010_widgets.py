"""Widgets and their visitors."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "widgets",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("allowed_origins", sa.JSON(), nullable=False),
        sa.Column("persona", sa.String(length=64), nullable=True),
        sa.Column("anonymous", sa.Boolean(), nullable=False),
        sa.Column("title", sa.String(length=100), nullable=False),
        sa.Column("greeting", sa.String(length=1000), nullable=False),
        sa.Column("colour", sa.String(length=7), nullable=False),
        sa.Column("languages", sa.JSON(), nullable=False),
        sa.Column("secret", sa.String(length=100), nullable=False),
        sa.Column("previous_secret", sa.String(length=100), nullable=True),
        sa.Column("previous_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_widgets")),
    )
    with op.batch_alter_table("widgets") as batch_op:
        batch_op.create_index("ix_widgets_created_at_id", ["created_at", "id"])

    op.create_table(
        "visitors",
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.Column("widget_id", sa.String(length=36), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=True),
        sa.Column("key_hash", sa.String(length=64), nullable=True),
        sa.Column("name", sa.String(length=100), nullable=True),
        sa.Column("email", sa.String(length=254), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_visitors_user_id_users"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["widget_id"], ["widgets.id"], name=op.f("fk_visitors_widget_id_widgets")),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_visitors")),
        sa.UniqueConstraint("key_hash", name=op.f("uq_visitors_key_hash")),
        sa.UniqueConstraint("widget_id", "subject", name=op.f("uq_visitors_widget_id_subject")),
    )
    with op.batch_alter_table("visitors") as batch_op:
        batch_op.create_index("ix_visitors_seen_at", ["seen_at"])


def downgrade() -> None:
    with op.batch_alter_table("visitors") as batch_op:
        batch_op.drop_index("ix_visitors_seen_at")
    op.drop_table("visitors")
    with op.batch_alter_table("widgets") as batch_op:
        batch_op.drop_index("ix_widgets_created_at_id")
    op.drop_table("widgets")
