"""The terminal chat itself: reads what a person types, shows what comes back, and knows a handful of commands.

Ctrl-C ends the answer and not the program; a second one during the same answer, or Ctrl-C twice or Ctrl-D at the prompt,
leaves.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from app.cli.chat_api import ChatApi
from app.cli.chat_connection import ChatConnection, ConnectionRefused, Frame, RequestRefused, ResyncRequired
from app.cli.chat_screen import Screen

LISTED = 20
SHOWN_AGAIN = 10
"""Messages of an old conversation that are shown when it is opened."""

HELP = """\
/new          begin a new conversation
/list         list your conversations
/open N       go on with conversation N of the list
/regenerate   ask for another answer to what you said last
/help         this text
/quit         leave (as does Ctrl-D)
//text        say something that begins with a slash
Ctrl-C stops an answer; what was shown of it stays."""

ENDINGS = {
    "response.incomplete": "The answer was cut off: the limit of tokens was reached.",
    "response.cancelled": "Stopped.",
    "response.interrupted": "The server was restarted while it answered; /regenerate asks again.",
}


class ChatTerminal:
    """One person at one terminal, or one pipe. Owns which conversation is open."""

    def __init__(
        self, api: ChatApi, connection: ChatConnection, screen: Screen, read_line: Callable[[str], str] = input
    ) -> None:
        self._api = api
        self._connection = connection
        self._screen = screen
        self._read_line = read_line
        self._conversation_id: str | None = None
        self._listed: list[str] = []
        self._last_said_id: str | None = None

    def run(self) -> None:
        """Ask and answer until the person leaves."""
        with suppress(ImportError):
            # Gives the prompt a history and keys to edit with, where Python was built with it.
            import readline  # noqa: F401
        self._screen.notice("Type a message; /help lists commands.")
        interrupted = False
        while True:
            try:
                line = self._read_line("> ").strip()
            except EOFError:
                self._screen.notice("\nGood-bye.")
                return
            except KeyboardInterrupt:
                if interrupted:
                    self._screen.notice("\nGood-bye.")
                    return
                interrupted = True
                self._screen.notice("\nCtrl-C again, or Ctrl-D, leaves.")
                continue
            interrupted = False
            if line.startswith("/") and not line.startswith("//"):
                if not self._command(line):
                    return
            elif line:
                self.say(line.removeprefix("/") if line.startswith("//") else line)

    def say(self, text: str) -> bool:
        """Say one thing and show the answer; whether it came to a good end."""
        try:
            if self._conversation_id is None:
                self._conversation_id = self._api.new_conversation()
            return self._show(self._connection.say(self._conversation_id, text))
        except RequestRefused as refusal:
            self._screen.notice(str(refusal))
            return False

    def _command(self, line: str) -> bool:
        """Carry out a command; False when it was the last."""
        name, _, argument = line.partition(" ")
        try:
            match name:
                case "/quit" | "/exit":
                    return False
                case "/help":
                    self._screen.notice(HELP)
                case "/new":
                    self._conversation_id = self._last_said_id = None
                    self._screen.notice("A new conversation.")
                case "/list":
                    self._list()
                case "/open":
                    self._open(argument.strip())
                case "/regenerate":
                    self._regenerate()
                case _:
                    self._screen.notice(f"There is no command {name}; /help lists them.")
        except RequestRefused as refusal:
            self._screen.notice(str(refusal))
        return True

    def _list(self) -> None:
        conversations = self._api.conversations(LISTED)
        self._listed = [conversation["id"] for conversation in conversations]
        for number, conversation in enumerate(conversations, 1):
            here = "*" if conversation["id"] == self._conversation_id else " "
            self._screen.notice(
                f"{here}{number:3}  {conversation['updated_at'][:10]}  {conversation['title'] or '(no title)'}"
            )
        if not conversations:
            self._screen.notice("There are no conversations yet.")

    def _open(self, argument: str) -> None:
        if not self._listed:
            self._listed = [conversation["id"] for conversation in self._api.conversations(LISTED)]
        if not argument.isdecimal() or not 1 <= int(argument) <= len(self._listed):
            self._screen.notice(
                f"Expected a number from 1 to {len(self._listed)}, as /list shows them; got {argument!r}."
            )
            return
        self._conversation_id = self._listed[int(argument) - 1]
        messages = self._api.messages(self._conversation_id)
        self._last_said_id = next((m["id"] for m in reversed(messages) if m["role"] == "user"), None)
        for message in messages[-SHOWN_AGAIN:]:
            if message["role"] == "user":
                self._screen.said(message["content"])
                continue
            self._screen.text(message["content"])
            if message["status"] in ("queued", "in_progress"):
                self._show(
                    self._connection.follow(message["response_id"], message["last_seq"]), shown=message["content"]
                )
            self._screen.end_line()

    def _regenerate(self) -> None:
        if self._last_said_id is None:
            self._screen.notice("You have not said anything here yet.")
            return
        self._show(self._connection.regenerate(self._last_said_id))

    def _show(self, frames: Iterator[Frame], shown: str = "") -> bool:
        """Show an answer as it comes; whether it came to a good end."""
        with self._ctrl_c_stops_the_answer():
            try:
                for frame in frames:
                    if frame["type"] == "response.output_text.delta":
                        shown += frame["data"]["text"]
                    if (ended_well := self._show_frame(frame)) is not None:
                        return ended_well
            except ResyncRequired:
                return self._show_stored(shown)
            except ConnectionRefused as refusal:
                raise RequestRefused(str(refusal)) from None
            finally:
                self._screen.end_line()
        return False

    def _show_frame(self, frame: Frame) -> bool | None:
        """Show one frame; what is returned ends the answer."""
        data: dict[str, Any] = frame.get("data") or {}
        match frame["type"]:
            case "message.created" if data["message"]["role"] == "user":
                self._last_said_id = data["message"]["id"]
                if data.get("response", {}) is None:
                    self._screen.notice("Stored. A person answers here, or is waited for; /open shows what they write.")
                    return True
            case "response.queued":
                self._screen.progress(f"waiting; place {data['position']} in the queue")
            case "response.in_progress":
                self._screen.progress(f"reading {data['done']} of {data['total']} tokens")
            case "response.output_text.delta":
                self._screen.text(data["text"])
            case "response.completed":
                return True
            case "response.failed":
                error = data.get("error") or {}
                self._screen.notice(f"The answer failed: {error.get('message', 'the server gave no reason')}")
                return False
            case kind if kind in ENDINGS:
                self._screen.notice(ENDINGS[kind])
                return bool(kind == "response.incomplete")
        return None

    def _show_stored(self, shown: str) -> bool:
        """The rest of an answer whose frames cannot be had any more."""
        assert self._conversation_id is not None
        message = self._api.messages(self._conversation_id)[-1]
        content = str(message["content"])
        if not content.startswith(shown):
            self._screen.end_line()
            shown = ""
        self._screen.text(content[len(shown) :])
        return bool(message["status"] == "completed")

    @contextmanager
    def _ctrl_c_stops_the_answer(self) -> Iterator[None]:
        presses = 0

        def pressed(_signal: int, _frame: object) -> None:
            nonlocal presses
            presses += 1
            if presses > 1:
                raise KeyboardInterrupt
            self._connection.stop()

        before = signal.signal(signal.SIGINT, pressed)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
