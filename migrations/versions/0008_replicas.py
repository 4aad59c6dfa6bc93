"""How somebody wants an answer to end that another server makes; the index by which unfinished answers are found."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("responses") as batch_op:
        batch_op.add_column(sa.Column("wanted_status", sa.String(length=16), nullable=True))
        batch_op.drop_index("ix_responses_owner_status")
        batch_op.create_index("ix_responses_status_owner", ["status", "owner"])


def downgrade() -> None:
    with op.batch_alter_table("responses") as batch_op:
        batch_op.drop_index("ix_responses_status_owner")
        batch_op.create_index("ix_responses_owner_status", ["owner", "status"])
        batch_op.drop_column("wanted_status")
