"""Who of an OpenID Connect provider is which account here."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "external_identities",
        sa.Column("issuer", sa.String(length=255), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_external_identities_user_id_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("issuer", "subject", name=op.f("pk_external_identities")),
    )
    with op.batch_alter_table("external_identities") as batch_op:
        batch_op.create_index(batch_op.f("ix_external_identities_user_id"), ["user_id"])


def downgrade() -> None:
    with op.batch_alter_table("external_identities") as batch_op:
        batch_op.drop_index(batch_op.f("ix_external_identities_user_id"))

    op.drop_table("external_identities")
