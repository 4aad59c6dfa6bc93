"""Versions of personas: a conversation goes on with the one it began with."""

from __future__ import annotations

from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "persona_versions",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("system_prompt", sa.Text(), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_persona_versions")),
    )
    with op.batch_alter_table("personas") as batch_op:
        batch_op.add_column(sa.Column("version_id", sa.String(length=36), nullable=True))
    with op.batch_alter_table("conversations") as batch_op:
        batch_op.add_column(sa.Column("persona_version_id", sa.String(length=36), nullable=True))

    connection = op.get_bind()
    for (name,) in connection.execute(sa.text("SELECT name FROM personas")).all():
        values = {"id": str(uuid4()), "name": name}
        for statement in (
            "INSERT INTO persona_versions SELECT :id, name, system_prompt, params FROM personas WHERE name = :name",
            "UPDATE personas SET version_id = :id WHERE name = :name",
            "UPDATE conversations SET persona_version_id = :id WHERE persona = :name",
        ):
            connection.execute(sa.text(statement), values)

    with op.batch_alter_table("personas") as batch_op:
        batch_op.alter_column("version_id", existing_type=sa.String(length=36), nullable=False)
        batch_op.create_foreign_key(
            op.f("fk_personas_version_id_persona_versions"), "persona_versions", ["version_id"], ["id"]
        )
        batch_op.drop_column("system_prompt")
        batch_op.drop_column("params")
    with op.batch_alter_table("conversations") as batch_op:
        batch_op.create_foreign_key(
            op.f("fk_conversations_persona_version_id_persona_versions"),
            "persona_versions",
            ["persona_version_id"],
            ["id"],
        )
        batch_op.create_index("ix_conversations_persona_version_id", ["persona_version_id"])


def downgrade() -> None:
    with op.batch_alter_table("conversations") as batch_op:
        batch_op.drop_index("ix_conversations_persona_version_id")
        batch_op.drop_constraint(op.f("fk_conversations_persona_version_id_persona_versions"), type_="foreignkey")
        batch_op.drop_column("persona_version_id")
    with op.batch_alter_table("personas") as batch_op:
        batch_op.add_column(sa.Column("system_prompt", sa.Text(), nullable=True))
        batch_op.add_column(sa.Column("params", sa.JSON(), nullable=True))
    for column in ("system_prompt", "params"):
        op.execute(
            f"UPDATE personas SET {column} = "
            f"(SELECT {column} FROM persona_versions WHERE persona_versions.id = personas.version_id)"
        )
    with op.batch_alter_table("personas") as batch_op:
        batch_op.drop_constraint(op.f("fk_personas_version_id_persona_versions"), type_="foreignkey")
        batch_op.drop_column("version_id")
        batch_op.alter_column("system_prompt", existing_type=sa.Text(), nullable=False)
        batch_op.alter_column("params", existing_type=sa.JSON(), nullable=False)
    op.drop_table("persona_versions")
