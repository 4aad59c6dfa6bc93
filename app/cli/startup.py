"""What commands do first: read the settings and open the data folder, or refuse in one clear sentence.

A person who mistyped something never sees a traceback: every command turns what it expects to go wrong into `Refused`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from app.operations.logging import configure_logging
from app.settings import Settings
from app.settings_source import Loaded, SettingsError, load_settings

Command = TypeVar("Command", bound=Callable[..., Any])


class Refused(click.ClickException):
    """The command cannot do what was asked; the message is one sentence on standard error."""

    exit_code = 2


def data_option(command: Command) -> Command:
    """`--data`, for every command that works in the data folder."""
    return click.option(
        "--data",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder of the database, the journal and the models.  [default: ./data]",
    )(command)


def read_settings(**given: object) -> Settings:
    """The settings, with those options of the command line that were given; logs go where they say. Raises Refused."""
    return read_settings_and_origins(**given).settings


def read_settings_and_origins(**given: object) -> Loaded:
    """The same, and where each came from."""
    try:
        loaded = load_settings({name: value for name, value in given.items() if value is not None})
    except SettingsError as error:
        raise Refused(str(error)) from None
    configure_logging(loaded.settings)
    return loaded


def stdin_text(what: str, *, one_line: bool = False) -> str:
    """Standard input, or its first line without its end. Raises Refused where it is not UTF-8, whatever the locale is."""
    raw = sys.stdin.buffer.readline().rstrip(b"\r\n") if one_line else sys.stdin.buffer.read()
    try:
        return raw.decode()
    except UnicodeDecodeError as problem:
        raise Refused(f"{what} on standard input is not UTF-8 at byte {problem.start}") from None


def make_data_folder(folder: Path) -> None:
    """Make sure that there is a data folder we can write to; only its owner may look into it. Raises Refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise Refused(f"the data folder {folder} cannot be made: {error.strerror or error}") from None
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise Refused(f"the data folder {folder} cannot be written to by this user")
