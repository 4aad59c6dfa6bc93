"""A PostgreSQL of the tests' own: started from the installed binaries in a temporary folder, reachable over a socket file only,
and gone at the end, also when the tests are killed. Nothing of the machine's own databases is touched."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from tests.support.last_will import LastWill

# Nothing here has to survive a power cut, so nothing waits for the disk.
SETTINGS = [
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "listen_addresses=''",
    "max_connections=200",
    "shared_buffers=64MB",
    "autovacuum=off",
]


def binaries() -> Path:
    """The folder of the newest installed PostgreSQL. Debian keeps it off the search path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("postgres")
    if found:
        return found[-1].parent
    if on_path:
        return Path(on_path).parent
    raise RuntimeError("expected PostgreSQL's binaries (Debian: apt install postgresql), found none")


class PostgresCluster:
    """One running server. `create_database` is cheap where it copies a template."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="kvasir-pg-"))
        # PostgreSQL refuses to run as root.
        self._owner = "postgres" if os.geteuid() == 0 else None
        self._count = 0
        self._will: LastWill | None = None

    def start(self) -> None:
        """Make the cluster and start it; returns when it answers."""
        if self._owner is not None:
            shutil.chown(self._folder, self._owner, self._owner)
        stop_and_remove = '"$1" -D "$2/data" -m immediate -w stop; rm -rf "$2"'
        self._will = LastWill(stop_and_remove, str(binaries() / "pg_ctl"), str(self._folder), owner=self._owner)
        self._run(
            "initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"
        )
        with (self._data / "postgresql.conf").open("a") as configuration:
            configuration.write("\n".join([*SETTINGS, f"unix_socket_directories='{self._folder}'", ""]))
        self._run("pg_ctl", "-D", str(self._data), "-l", str(self._folder / "log"), "-w", "-t", "60", "start")

    def restart(self) -> None:
        """As a person does it: connections are ended, and what was committed is kept."""
        self._run("pg_ctl", "-D", str(self._data), "-m", "fast", "-w", "stop")
        self._run("pg_ctl", "-D", str(self._data), "-l", str(self._folder / "log"), "-w", "-t", "60", "start")

    def stop(self) -> None:
        """End it and remove its folder."""
        assert self._will is not None
        self._will.execute()

    def create_database(self, template: str = "template1") -> str:
        """A new database, and its URL."""
        self._count += 1
        name = f"test_{self._count}"
        self.create_named(name, template)
        return self.url(name)

    def create_named(self, name: str, template: str = "template1") -> None:
        """A new database of this name."""
        self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')

    def drop_database(self, url: str) -> None:
        """Remove a database of `create_database`, whoever is still connected."""
        self._execute(f'DROP DATABASE "{make_url(url).database}" WITH (FORCE)')

    def url(self, name: str) -> str:
        """The URL of a database."""
        return f"postgresql://postgres@/{name}?host={self._folder}"

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _execute(self, statement: str) -> None:
        with psycopg.connect(f"host={self._folder} user=postgres dbname=postgres", autocommit=True) as connection:
            connection.execute(statement.encode())

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(binaries() / program), *arguments]
        # Into a file and not a pipe: the server inherits it and would keep a pipe open.
        with tempfile.TemporaryFile() as output:
            finished = subprocess.run(
                command,
                user=self._owner,
                group=self._owner,
                cwd="/",
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
            output.seek(0)
            if finished.returncode != 0:
                raise RuntimeError(f"{program} failed: {output.read().decode(errors='replace')}")
