"""The command `kvasir`. Each subcommand is a module of its own, imported when it is asked for, so that `--help` is quick."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from app.cli.garbage import begin_start

COMMANDS = {
    "serve": "Start the server. The first start makes the data folder and fetches the model.",
    "chat": "Chat in the terminal with a running server.",
    "user": "Make accounts and sign-in links.",
    "key": "Make API keys.",
    "persona": "Name system prompts that conversations begin with.",
    "db": "Migrate the database, or check whether it has to be.",
    "backup": "Copy a SQLite database, also while the server runs.",
    "restore": "Put a backup in the place of the database.",
    "model": "Fetch and list models.",
    "config": "Show every setting, its value, and where the value comes from.",
    "doctor": "Say in plain words what is wrong with this machine or setup.",
    "bench": "Measure how fast this machine is, and what each idea brings.",
}
"""Name to one line of help. The module app.cli.NAME has a command called NAME."""


class LazyGroup(click.Group):
    """A group whose commands are imported on use; the list of them is printed from COMMANDS alone."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        begin_start()
        command = getattr(import_module(f"app.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Settings are environment variables KVASIR_…, or lines of a .env file; `kvasir config` lists them all.",
)
@click.version_option(package_name="kvasir-chat", prog_name="kvasir")
def main() -> None:
    """Kvasir, a self-hosted chat server that owns both the conversation and its KV cache."""
    replace_closed_streams()


def replace_closed_streams() -> None:
    """A standard stream that whoever started us has closed reads as empty and takes everything.

    Without this the next file that is opened would get its number, and whatever a library prints would land in it.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, os.fdopen(number, mode))
