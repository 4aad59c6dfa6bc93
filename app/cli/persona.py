"""`kvasir persona list|set|delete`: personas, in the database itself, whether or not the server runs.

A server that runs uses a new prompt from its next answer on; that it computes it ahead it learns within the hour.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click
import msgspec

from app.audit.service import AuditLog
from app.cli.database import open_database, upgrade_database
from app.cli.startup import Refused, data_option, read_settings, stdin_text
from app.clock import utc_now
from app.errors import AppError
from app.idempotency import Idempotency
from app.pagination import LIMIT_MAX
from app.personas.schemas import PersonaBody, PersonaCreate
from app.personas.service import PersonaService
from app.realtime.protocol import ResponseParams
from app.settings import Settings

SHOWN_CHARS = 60


@click.group()
def persona() -> None:
    """Name system prompts that conversations begin with."""


@persona.command("list")
@data_option
def list_(data: Path | None) -> None:
    """List them: name, and how the prompt begins."""
    for body in asyncio.run(_all(read_settings(data=data))):
        prompt = " ".join(body.system_prompt.split())
        click.echo(f"{body.name:24} {prompt if len(prompt) <= SHOWN_CHARS else prompt[: SHOWN_CHARS - 1] + '…'}")


@persona.command("set")
@click.argument("name")
@click.option(
    "--prompt-file", type=click.Path(path_type=Path), required=True, help="File with the prompt; - is standard input."
)
@click.option("--params", default="{}", help='Sampling defaults as JSON, such as {"temperature": 0.7}.')
@data_option
def set_(name: str, prompt_file: Path, params: str, data: Path | None) -> None:
    """Make the persona NAME, or change it."""
    settings = read_settings(data=data)
    wanted = _wanted(name, _prompt(prompt_file), params)
    upgrade_database(settings)
    asyncio.run(_put(settings, wanted))
    click.echo(f"The persona {name!r} begins with {len(wanted.system_prompt)} characters now.")


@persona.command()
@click.argument("name")
@data_option
def delete(name: str, data: Path | None) -> None:
    """Delete the persona NAME. Conversations that began with it go on with it."""
    asyncio.run(_delete(read_settings(data=data), name))
    click.echo(f"Deleted the persona {name!r}.")


def _prompt(file: Path) -> str:
    if str(file) == "-":
        return stdin_text("the prompt").rstrip("\n")
    try:
        return file.read_bytes().decode().rstrip("\n")
    except UnicodeDecodeError as problem:
        raise Refused(f"the prompt in {file} is not UTF-8 at byte {problem.start}") from None
    except OSError as problem:
        raise Refused(f"the prompt in {file} cannot be read: {problem.strerror}") from None


def _wanted(name: str, prompt: str, params: str) -> PersonaCreate:
    try:
        sampling = msgspec.json.decode(params, type=ResponseParams)
    except msgspec.DecodeError as problem:
        raise Refused(f"--params: {problem}") from None
    try:
        return msgspec.convert({"name": name, "system_prompt": prompt, "params": sampling}, PersonaCreate)
    except msgspec.ValidationError as problem:
        raise Refused(f"the persona {name!r}: {problem}") from None


@asynccontextmanager
async def _open_personas(settings: Settings) -> AsyncIterator[PersonaService]:
    async with open_database(settings) as database:
        idempotency = Idempotency(database, settings.idempotency_hours, now=utc_now)
        try:
            yield PersonaService(database, idempotency, AuditLog(database, now=utc_now), settings, now=utc_now)
        except AppError as error:
            raise Refused(error.detail) from None


async def _all(settings: Settings) -> list[PersonaBody]:
    found: list[PersonaBody] = []
    cursor: str | None = None
    async with _open_personas(settings) as personas:
        while True:
            page = await personas.page(limit=LIMIT_MAX, cursor=cursor)
            found += page.items
            if (cursor := page.next_cursor) is None:
                return found


async def _put(settings: Settings, wanted: PersonaCreate) -> None:
    async with _open_personas(settings) as personas:
        await personas.put(None, wanted)


async def _delete(settings: Settings, name: str) -> None:
    async with _open_personas(settings) as personas:
        await personas.delete(None, name)
