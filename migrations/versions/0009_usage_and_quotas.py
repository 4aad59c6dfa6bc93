"""What answers have cost, limits of accounts and keys, and the key of an answer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "usage_records",
        sa.Column("response_id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.Column("key_id", sa.String(length=36), nullable=True),
        sa.Column("persona", sa.String(length=64), nullable=True),
        sa.Column("model", sa.String(length=255), nullable=True),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("response_id", name=op.f("pk_usage_records")),
    )
    with op.batch_alter_table("usage_records") as batch_op:
        batch_op.create_index("ix_usage_records_day", ["day"])
        batch_op.create_index("ix_usage_records_user_id_day", ["user_id", "day"])
        batch_op.create_index("ix_usage_records_key_id_day", ["key_id", "day"])

    op.create_table(
        "quotas",
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("subject_id", sa.String(length=36), nullable=False),
        sa.Column("requests_per_minute", sa.BigInteger(), nullable=True),
        sa.Column("tokens_per_minute", sa.BigInteger(), nullable=True),
        sa.Column("requests_per_day", sa.BigInteger(), nullable=True),
        sa.Column("tokens_per_day", sa.BigInteger(), nullable=True),
        sa.Column("concurrent_answers", sa.BigInteger(), nullable=True),
        sa.Column("sockets", sa.BigInteger(), nullable=True),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("kind", "subject_id", name=op.f("pk_quotas")),
    )

    with op.batch_alter_table("responses") as batch_op:
        batch_op.add_column(sa.Column("key_id", sa.String(length=36), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("responses") as batch_op:
        batch_op.drop_column("key_id")

    op.drop_table("quotas")

    with op.batch_alter_table("usage_records") as batch_op:
        batch_op.drop_index("ix_usage_records_key_id_day")
        batch_op.drop_index("ix_usage_records_user_id_day")
        batch_op.drop_index("ix_usage_records_day")

    op.drop_table("usage_records")
