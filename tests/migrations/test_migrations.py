"""The schema's history, on both databases."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    DateTime,
    Engine,
    Integer,
    LargeBinary,
    MetaData,
    create_engine,
    insert,
    inspect,
    select,
    text,
)

import app
from app import migrate
from app.tables import METADATA
from tests.conftest import BACKENDS
from tests.support.postgres import PostgresCluster

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=BACKENDS)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database without any table."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'new folder' / '50%.sqlite3'}"
        return
    cluster: PostgresCluster = request.getfixturevalue("postgres_cluster")
    url = cluster.create_database()
    yield url
    cluster.drop_database(url)


def tables(url: str) -> set[str]:
    engine = create_engine(migrate.sync_url(url))
    try:
        names = set(inspect(engine).get_table_names()) - {"alembic_version"}
        # A full-text index of SQLite is a table that makes tables.
        return {name for name in names if not name.startswith("search_index")}
    finally:
        engine.dispose()


def test_an_empty_database_gets_every_table(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    assert tables(empty_url) == set(METADATA.tables)


def test_models_and_migrations_agree(empty_url: str) -> None:
    """open-webui/open-webui#26163: models and migrations drifted apart."""
    migrate.upgrade(empty_url)
    assert migrate.check(empty_url) == []


def test_every_index_and_constraint_has_the_name_the_models_give_it(empty_url: str) -> None:
    """SQLite's batch mode cannot drop a constraint without a name (sqlalchemy/alembic#1195)."""
    migrate.upgrade(empty_url)
    engine = create_engine(migrate.sync_url(empty_url))
    try:
        inspector = inspect(engine)
        for name, table in METADATA.tables.items():
            assert {index["name"] for index in inspector.get_indexes(name)} >= {index.name for index in table.indexes}
            assert inspector.get_pk_constraint(name)["name"] == f"pk_{name}"
            assert all(key["name"] for key in inspector.get_foreign_keys(name))
            assert all(constraint["name"] for constraint in inspector.get_unique_constraints(name))
    finally:
        engine.dispose()


def test_a_database_that_is_behind_is_told_what_to_do(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    migrate.downgrade(empty_url, "base")
    assert migrate.check(empty_url) == [
        f"the database is at revision none, this version needs {migrate.head_revision()}: run `kvasir db upgrade`"
    ]


def test_a_schema_that_was_changed_by_hand_is_noticed(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    engine = create_engine(migrate.sync_url(empty_url))
    with engine.begin() as connection:
        connection.execute(text("DROP INDEX ix_credentials_expires_at"))
    engine.dispose()
    (difference,) = migrate.check(empty_url)
    assert "ix_credentials_expires_at" in difference


def test_every_revision_goes_down_and_up_again(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    migrate.downgrade(empty_url, "base")
    assert tables(empty_url) == set()
    migrate.upgrade(empty_url)
    assert migrate.check(empty_url) == []


def test_a_database_of_the_first_version_keeps_every_row(empty_url: str) -> None:
    """open-webui/open-webui#21422: an upgrade with data in it."""
    migrate.upgrade(empty_url, "0001")
    engine = create_engine(migrate.sync_url(empty_url))
    moment = "2026-12-01 12:00:00.000000"
    with engine.begin() as connection:
        connection.execute(
            text("INSERT INTO users (id, username, role, created_at) VALUES ('u', 'ann', 'admin', :moment)"),
            {"moment": moment},
        )
        connection.execute(
            text(
                "INSERT INTO conversations (id, user_id, title, state, archived, tags, metadata, last_ordinal, version,"
                " created_at, updated_at)"
                " VALUES ('c', 'u', 'Geography', 'bot', :no, '[]', '{}', 1, 1, :moment, :moment)"
            ),
            {"moment": moment, "no": False},
        )
        connection.execute(
            text(
                "INSERT INTO messages (id, conversation_id, ordinal, role, content, status, last_seq, created_at)"
                " VALUES ('m', 'c', 1, 'user', 'hello', 'completed', 0, :moment)"
            ),
            {"moment": moment},
        )
    migrate.upgrade(empty_url)
    assert migrate.check(empty_url) == []
    with engine.begin() as connection:
        rows = connection.execute(text("SELECT id, title, persona FROM conversations")).all()
        assert [tuple(row) for row in rows] == [("c", "Geography", None)]
        assert connection.execute(text("SELECT content FROM messages")).scalar_one() == "hello"
        connection.execute(text("UPDATE conversations SET persona = 'terse'"))
    migrate.downgrade(empty_url, "0001")
    with engine.begin() as connection:
        assert connection.execute(text("SELECT title FROM conversations")).scalar_one() == "Geography"
        assert connection.execute(text("SELECT content FROM messages")).scalar_one() == "hello"
    engine.dispose()


def test_conversations_of_a_persona_go_on_with_what_it_said_before_versions_were_kept(empty_url: str) -> None:
    migrate.upgrade(empty_url, "0003")
    engine = create_engine(migrate.sync_url(empty_url))
    moment = {"moment": "2026-12-01 12:00:00.000000"}
    said = (
        "SELECT c.id, v.system_prompt FROM conversations c"
        " LEFT JOIN persona_versions v ON v.id = c.persona_version_id ORDER BY c.id"
    )
    with engine.begin() as connection:
        connection.execute(
            text("INSERT INTO users (id, username, role, created_at) VALUES ('u', 'ann', 'admin', :moment)"), moment
        )
        connection.execute(
            text(
                "INSERT INTO personas VALUES ('terse', 'Be brief.', '{}', :moment, :moment), ('b', 'Be.', '{}', :moment, :moment)"
            ),
            moment,
        )
        for name, persona in (("c", "terse"), ("d", None), ("e", "deleted")):
            connection.execute(
                text(
                    "INSERT INTO conversations (id, user_id, title, state, archived, tags, metadata, last_ordinal, version,"
                    " persona, created_at, updated_at)"
                    " VALUES (:id, 'u', '', 'bot', :no, '[]', '{}', 0, 1, :persona, :moment, :moment)"
                ),
                {**moment, "id": name, "persona": persona, "no": False},
            )
    migrate.upgrade(empty_url)
    with engine.begin() as connection:
        rows = connection.execute(text(said)).all()
        assert [tuple(row) for row in rows] == [("c", "Be brief."), ("d", None), ("e", None)]
    migrate.downgrade(empty_url, "0003")
    with engine.begin() as connection:
        rows = connection.execute(text("SELECT name, system_prompt FROM personas ORDER BY name")).all()
        assert [tuple(row) for row in rows] == [("b", "Be."), ("terse", "Be brief.")]
    engine.dispose()


FIRST_MOMENT = "2026-12-01 12:00:00.000001"


def filled_first_version(url: str) -> dict[str, list[dict[str, object]]]:
    """A database of revision 1 with three rows in every table; what is in them."""
    migrate.upgrade(url, "0001")
    engine = create_engine(migrate.sync_url(url))
    tables = MetaData()
    with engine.begin() as connection:
        tables.reflect(connection)
        for table in tables.sorted_tables:
            if table.name != "alembic_version":
                for number in range(3):
                    connection.execute(insert(table).values({c.name: invented(c, number) for c in table.columns}))
    rows = all_rows(engine, tables)
    engine.dispose()
    return rows


def invented(column: Column[Any], number: int) -> object:
    """A value for a column: what refers to another row gets that row's own."""
    if column.foreign_keys and column.name != "parent_id":
        return f"id {number}"
    if column.name in ("parent_id", "issuer_id") and column.nullable:
        return None
    if isinstance(column.type, Boolean):
        return bool(number % 2)
    if isinstance(column.type, DateTime):
        return datetime.fromisoformat(FIRST_MOMENT).replace(tzinfo=UTC) + timedelta(seconds=number)
    if isinstance(column.type, Integer):
        return number + 1
    if isinstance(column.type, LargeBinary):
        return b"[]" + bytes([number])
    if isinstance(column.type, JSON):
        return [f"tag {number}"] if column.name == "tags" else {"number": number}
    return f"id {number}" if column.name in ("id", "parent_id") else f"{column.name} {number}"[: column.type.length]


def all_rows(engine: Engine, tables: MetaData) -> dict[str, list[dict[str, object]]]:
    """Every row of these columns, by table, in the order of its key."""
    with engine.begin() as connection:
        return {
            table.name: [
                dict(row._mapping) for row in connection.execute(select(table).order_by(*table.primary_key.columns))
            ]
            for table in tables.sorted_tables
            if table.name != "alembic_version"
        }


def test_every_row_of_every_table_of_the_first_version_survives_every_upgrade(empty_url: str) -> None:
    """C30, open-webui/open-webui#9853: one step after the other, and not a value is different."""
    before = filled_first_version(empty_url)
    assert {name: len(rows) for name, rows in before.items()} == dict.fromkeys(before, 3)
    script = ScriptDirectory.from_config(migrate.alembic_config(None))
    revisions = [revision.revision for revision in script.walk_revisions()][::-1]
    for revision in revisions[1:]:
        migrate.upgrade(empty_url, revision)
        engine = create_engine(migrate.sync_url(empty_url))
        tables = MetaData()
        with engine.begin() as connection:
            tables.reflect(connection)
        after = all_rows(engine, tables)
        engine.dispose()
        for name, rows in before.items():
            assert [{key: row[key] for key in rows[0]} for row in after[name]] == rows, (revision, name)
    assert migrate.check(empty_url) == []


def test_upgrading_twice_changes_nothing(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    migrate.upgrade(empty_url)
    assert migrate.current_revision(empty_url) == migrate.head_revision()


def test_four_processes_that_start_at_once_migrate_once_and_all_get_ready(empty_url: str) -> None:
    """open-webui/open-webui#21349: replicas migrated at once and tables were missing."""
    code = f"from app import migrate; migrate.upgrade({empty_url!r}); print(migrate.check({empty_url!r}))"
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    outcomes = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, outcomes
    assert [output.strip() for output, _ in outcomes] == ["[]"] * 4


def test_a_failing_upgrade_leaves_the_database_as_it_was(empty_url: str) -> None:
    if empty_url.startswith("sqlite"):
        Path(empty_url.removeprefix("sqlite:///")).parent.mkdir()
    engine = create_engine(migrate.sync_url(empty_url))
    with engine.begin() as connection:
        # In the way of one of the last tables the first revision makes.
        connection.execute(text("CREATE TABLE response_logs (nonsense INTEGER)"))
    engine.dispose()
    with pytest.raises(Exception, match="response_logs"):
        migrate.upgrade(empty_url)
    assert tables(empty_url) == {"response_logs"}
    assert migrate.current_revision(empty_url) is None


def test_the_history_has_one_beginning_and_one_end() -> None:
    script = ScriptDirectory.from_config(migrate.alembic_config(None))
    assert len(script.get_bases()) == 1
    assert len(script.get_heads()) == 1


def test_every_module_of_tables_is_part_of_the_schema() -> None:
    folder = Path(app.__path__[0])
    modules = {f"app.{path.parent.name}.models" for path in folder.glob("*/models.py")}
    before = set(METADATA.tables)
    for module in modules:
        importlib.import_module(module)
    assert set(METADATA.tables) == before
    assert {table.name for table in METADATA.sorted_tables} == before
