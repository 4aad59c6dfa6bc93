"""`kvasir chat`: signs in to a running server and starts the terminal chat."""

from __future__ import annotations

import asyncio
import getpass
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

import click

from app.cli.chat_api import ChatApi
from app.cli.chat_connection import ChatConnection, ConnectionRefused, RequestRefused, is_loopback
from app.cli.chat_screen import Screen
from app.cli.chat_terminal import ChatTerminal
from app.cli.garbage import end_start
from app.cli.startup import Refused, data_option, read_settings, stdin_text

TOKEN = re.compile(r"[!-~]+")

PIPE_ATTEMPTS = 6
"""Half a minute, as the pauses of ChatConnection go: longer than a restart, and nobody sits at a pipe to end it."""


@click.command()
@click.option("--url", help="Address of the server.  [default: http://127.0.0.1:8080, or the settings' host and port]")
@click.option("--username", help="Sign in as this account; the password is asked for.")
@click.option("--token", help="Sign in with a token, as POST /api/v1/auth/login gives it.")
@data_option
def chat(url: str | None, username: str | None, token: str | None, data: Path | None) -> None:
    """Chat in the terminal with a running server.

    Without --username and --token you are signed in as admin, which needs a server on this machine and its data folder.

    Ctrl-C stops an answer and not the program. In a pipe, standard input is one message and only the answer is printed:

        echo "What is the capital of France?" | kvasir chat
    """
    if username and token:
        raise click.UsageError("--username and --token exclude each other.")
    end_start()
    settings = read_settings(data=data)
    url = url or settings.local_url
    _require_address(url)
    if token is not None and not TOKEN.fullmatch(token):
        raise Refused("--token is empty, or holds characters that no token has")
    screen = Screen(sys.stdout, sys.stderr)
    piped = not sys.stdin.isatty()
    api = ChatApi(url, token)
    try:
        if token is None and username is None:
            if not is_loopback(url):
                raise Refused(f"{url} is not on this machine, so --username or --token is needed")
            api.token = asyncio.run(local_token(data))
        elif username is not None:
            api.log_in(username, _password(piped))
        _require_known(api, url, None if token or username else settings.data)
        connection = ChatConnection(url, api.token, notice=screen.notice, attempts=PIPE_ATTEMPTS if piped else None)
        connection.open()
        try:
            terminal = ChatTerminal(api, connection, screen)
            if piped:
                text = stdin_text("the message").strip()
                if text and not terminal.say(text):
                    raise click.exceptions.Exit(1)
            else:
                terminal.run()
        finally:
            connection.close()
            if token is None:
                api.log_out()
    except (RequestRefused, ConnectionRefused) as refusal:
        raise Refused(str(refusal)) from None
    finally:
        api.close()


def _require_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname is not None and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise Refused(f"expected an address that begins with http:// or https://, got {url!r}")
    if parts.username is not None:
        raise Refused("the address holds a user name; sign in with --username or --token")


def _require_known(api: ChatApi, url: str, data: Path | None) -> None:
    """Raises RequestRefused, or Refused where the sign-in was made in the wrong data folder."""
    try:
        api.me()
    except RequestRefused as refusal:
        if refusal.status == 401 and data is not None:
            raise Refused(
                f"the server at {url} does not use the data folder {data}; name the right one with --data, or sign in "
                "with --username"
            ) from None
        raise


async def local_token(data: Path | None) -> str:
    """A sign-in for admin, made in the database of a server on this machine. Raises Refused."""
    from app.cli.database import open_accounts
    from app.identifiers import UserId

    async with open_accounts(read_settings(data=data)) as accounts:
        admin = await accounts.ensure_admin()
        ticket = await accounts.make_sign_in_ticket(UserId(admin.id))
        return (await accounts.redeem_sign_in_ticket(ticket)).token


def _password(piped: bool) -> str:
    """From the terminal, also where standard input is the message. Raises Refused where there is none."""
    if not piped:
        return str(click.prompt("Password", hide_input=True))
    try:
        Path("/dev/tty").open().close()
    except OSError:
        raise Refused("there is no terminal to ask for the password on; use --token") from None
    return getpass.getpass("Password: ")
