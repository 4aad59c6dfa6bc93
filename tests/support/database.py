"""Databases for tests: each test gets one of its own, a copy of one that was migrated once."""

from __future__ import annotations

import shutil
from pathlib import Path

from app import migrate
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
    """Makes PostgreSQL databases, by copying one that is migrated already."""

    def __init__(self, cluster: PostgresCluster) -> None:
        self._cluster = cluster
        cluster.create_named(TEMPLATE)
        migrate.upgrade(cluster.url(TEMPLATE))

    def create(self) -> str:
        """A migrated database, and its URL."""
        return self._cluster.create_database(TEMPLATE)

    def drop(self, url: str) -> None:
        self._cluster.drop_database(url)
