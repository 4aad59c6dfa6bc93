"""What has to be done when this process has ended, however it did: a killed run leaves no servers and no folders behind."""

from __future__ import annotations

import subprocess

PATIENCE_S = 60


class LastWill:
    """A shell that waits for its standard input to end, which a kill -9 of this process does as well, and then runs a command.

    `command` is a line of shell whose "$1", "$2" … are the arguments.
    """

    def __init__(self, command: str, *arguments: str, owner: str | None = None) -> None:
        self._shell = subprocess.Popen(
            ["sh", "-c", f"cat >/dev/null; {command}", "last-will", *arguments],
            user=owner,
            group=owner,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Ctrl-C is for the tests; what they leave is still to be cleared away.
            start_new_session=True,
        )

    def execute(self) -> None:
        """Do it now; returns when it is done."""
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait(PATIENCE_S)
