"""Databases for tests: each test gets one of its own, a copy of one that was migrated once."""

from __future__ import annotations

import shutil
from pathlib import Path

import psycopg

from app import migrate
from app.tables import METADATA
from tests.support.postgres import PostgresCluster

TEMPLATE = "kvasir_template"


class SQLiteDatabases:
    """Makes SQLite files, by copying one that is migrated already."""

    def __init__(self, folder: Path) -> None:
        self._template = folder / "template.sqlite3"
        migrate.upgrade(f"sqlite:///{self._template}")

    def create(self, folder: Path) -> str:
        """A migrated database in this folder, and its URL."""
        path = folder / "kvasir.sqlite3"
        shutil.copyfile(self._template, path)
        return f"sqlite:///{path}"


class PostgresDatabases:
    """Makes PostgreSQL databases, by copying one that is migrated already, and takes them back to use them again."""

    def __init__(self, cluster: PostgresCluster) -> None:
        self._cluster = cluster
        self._free: list[str] = []
        cluster.create_named(TEMPLATE)
        migrate.upgrade(cluster.url(TEMPLATE))

    def create(self) -> str:
        """A migrated and empty database, and its URL."""
        return self._free.pop() if self._free else self._cluster.create_database(TEMPLATE)

    def give_back(self, url: str) -> None:
        """Empty a database for the next test. Nobody may be connected to it any more."""
        with psycopg.connect(url, autocommit=True) as connection:
            # Much quicker than a new database, and unlike DELETE whatever the test has left.
            connection.execute(f"TRUNCATE {', '.join(METADATA.tables)}".encode())
        self._free.append(url)
