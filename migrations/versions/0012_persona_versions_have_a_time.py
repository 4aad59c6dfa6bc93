"""When a version of a persona was made, so that they can be listed in their order."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

VERSIONS = sa.table("persona_versions", sa.column("name"), sa.column("created_at", sa.DateTime(timezone=True)))
PERSONAS = sa.table("personas", sa.column("name"), sa.column("updated_at", sa.DateTime(timezone=True)))


def upgrade() -> None:
    with op.batch_alter_table("persona_versions") as batch_op:
        batch_op.add_column(sa.Column("created_at", sa.DateTime(timezone=True), nullable=True))
    # Nobody wrote it down. The last change of the persona is when its newest version was made, and no older one is younger.
    changed = sa.select(PERSONAS.c.updated_at).where(PERSONAS.c.name == VERSIONS.c.name).scalar_subquery()
    op.execute(sa.update(VERSIONS).values(created_at=sa.func.coalesce(changed, sa.func.current_timestamp())))


def downgrade() -> None:
    with op.batch_alter_table("persona_versions") as batch_op:
        batch_op.drop_column("created_at")
