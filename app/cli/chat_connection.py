"""The terminal chat's socket: sends what a person says, yields the frames of the answer, and survives a lost connection.

Blocking on purpose: one thread, one answer at a time. `stop` is called from a signal handler, so it only sets a flag. A frame is
yielded at most once, whatever is sent again after a reconnect: `seq` tells.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect

from app.realtime.protocol import PROTOCOL_VERSIONS, TERMINAL_TYPES, CloseCode

Frame = dict[str, Any]

POLL_S = 0.1
"""How soon a wish to stop is noticed while nothing arrives."""

RETRY_S = (0.5, 1, 2, 4, 8, 15)
"""Pauses before the next attempt; the last one is repeated."""

FRAME_MAX_BYTES = 16 << 20

FINAL_CLOSES = {
    CloseCode.PROTOCOL: "this server speaks another version of the protocol",
    CloseCode.TOO_LARGE: "this is more than the server takes at once",
    CloseCode.ORIGIN: "the server does not take connections from here",
    CloseCode.UNAUTHENTICATED: "you are not signed in, or not any more",
    CloseCode.FORBIDDEN: "this account may not chat",
    CloseCode.KICKED: "the connection was ended by an administrator",
}
"""Closes after which another attempt would end the same way."""


class ConnectionRefused(Exception):
    """The server does not take us, and will not; the message is a sentence."""


class RequestRefused(Exception):
    """The server answered with an error, or what was asked may have been lost; the message is a sentence.

    `status` is the HTTP status, where there is one.
    """

    def __init__(self, sentence: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status


class ResyncRequired(Exception):
    """The rest of this answer cannot be had as frames; its stored message can be read."""


class ChatConnection:
    """At most one open socket. `notice` is told of what a person should know, such as a lost connection.

    With `attempts`, so many in a row that fail are the end; without, only a person ends them.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        notice: Callable[[str], None],
        attempts: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url = socket_url(url)
        self._token = token
        self._notice = notice
        self._attempts = attempts
        self._sleep = sleep
        self._socket: ClientConnection | None = None
        self._closing = ExitStack()
        self._stop_wanted = False

    def stop(self) -> None:
        """End the answer that is being received; what was shown of it stays. Safe in a signal handler."""
        self._stop_wanted = True

    def close(self) -> None:
        """Give the socket back. Idempotent."""
        self._socket = None
        self._closing.close()

    def say(self, conversation_id: str, content: str) -> Iterator[Frame]:
        """Send a message; yields its acknowledgement and then every frame of the answer.

        Raises RequestRefused, ConnectionRefused or ResyncRequired.
        """
        try:
            content.encode()
        except UnicodeEncodeError as problem:
            raise RequestRefused(f"what was typed is not UTF-8 at character {problem.start}") from None
        data = {
            "conversation_id": conversation_id,
            "content": content,
            # With it, asking again after a lost connection does not say it twice.
            "client_message_id": uuid.uuid4().hex,
        }
        return self._exchange({"type": "message.create", "data": data}, may_repeat=True)

    def regenerate(self, parent_id: str) -> Iterator[Frame]:
        """Ask for another answer to a message; yields as `say` does."""
        return self._exchange({"type": "response.regenerate", "data": {"parent_id": parent_id}}, may_repeat=False)

    def follow(self, response_id: str, last_seq: int) -> Iterator[Frame]:
        """The frames of an answer behind `last_seq`, up to its end."""
        self.close()
        self._stop_wanted = False
        return self._frames(None, response_id, last_seq, may_repeat=True)

    def _exchange(self, request: Frame, *, may_repeat: bool) -> Iterator[Frame]:
        self._stop_wanted = False
        request["id"] = uuid.uuid4().hex
        return self._frames(request, None, 0, may_repeat=may_repeat)

    def _frames(
        self, request: Frame | None, response_id: str | None, last_seq: int, *, may_repeat: bool
    ) -> Iterator[Frame]:
        failures = 0
        sent = False
        while True:
            try:
                socket = self._opened(response_id, last_seq)
                if request is not None and response_id is None:
                    if sent and not may_repeat:
                        raise RequestRefused("the connection was lost before the server answered; see /open")
                    sent = True
                    # Not as ASCII: escapes would make three bytes of one, and a frame has a limit.
                    socket.send(json.dumps(request, ensure_ascii=False))
                stop_sent = False
                while True:
                    if self._stop_wanted and response_id is not None and not stop_sent:
                        socket.send(json.dumps({"type": "response.cancel", "data": {"response_id": response_id}}))
                        stop_sent = True
                    frame = _received(socket)
                    if frame is None:
                        continue
                    failures = 0
                    if response_id is None:
                        if _answers(frame, request):
                            response_id = _acknowledged(frame)
                            yield frame
                            if response_id is None:
                                return
                        continue
                    if frame.get("response_id") != response_id:
                        continue
                    if frame["type"] == "resync_required":
                        raise ResyncRequired
                    seq = frame.get("seq")
                    if not isinstance(seq, int) or seq <= last_seq:
                        continue
                    if seq > last_seq + 1:
                        raise OSError(f"frame {last_seq + 1} is missing")
                    last_seq = seq
                    yield frame
                    if frame["type"] in TERMINAL_TYPES:
                        return
            except (ConnectionClosed, InvalidHandshake, OSError) as error:
                self.close()
                _raise_if_final(error)
                if failures == self._attempts:
                    raise ConnectionRefused(f"the connection was lost, and {failures} attempts failed") from None
                pause = RETRY_S[min(failures, len(RETRY_S) - 1)]
                failures += 1
                self._notice(f"The connection was lost; trying again in {pause:g} s.")
                self._sleep(pause)
                if self._stop_wanted:
                    raise RequestRefused("not connected; /open shows the answer when the server is back") from None

    def _opened(self, response_id: str | None, last_seq: int) -> ClientConnection:
        """The open socket; a new one says hello and resumes the answer that is being received."""
        if self._socket is None:
            resume = [] if response_id is None else [{"response_id": response_id, "last_seq": last_seq}]
            connecting = connect(
                self._url,
                additional_headers={"Authorization": f"Bearer {self._token}"},
                max_size=FRAME_MAX_BYTES,
                compression=None,
                proxy=None if is_loopback(self._url) else True,
            )
            self._socket = self._closing.enter_context(connecting)
            hello = {"type": "session.hello", "data": {"protocol": PROTOCOL_VERSIONS[-1], "resume": resume}}
            self._socket.send(json.dumps(hello))
        return self._socket

    def open(self) -> None:
        """Connect and wait until the server is ready for us. Raises ConnectionRefused, also when nobody is there."""
        try:
            socket = self._opened(None, 0)
            while (frame := _received(socket)) is None or frame["type"] != "session.ready":
                pass
        except (ConnectionClosed, InvalidHandshake, OSError) as error:
            self.close()
            _raise_if_final(error)
            raise ConnectionRefused(f"no socket to {self._url}: {error}") from None


def socket_url(url: str) -> str:
    """The socket's address for a server's."""
    parts = urlsplit(url)
    scheme = "wss" if parts.scheme == "https" else "ws"
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}/ws"


def is_loopback(url: str) -> bool:
    """Whether the address is on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _received(socket: ClientConnection) -> Frame | None:
    """The next frame, or None when none came within POLL_S."""
    try:
        frame = json.loads(socket.recv(timeout=POLL_S))
    except TimeoutError:
        return None
    assert isinstance(frame, dict)
    return frame


def _answers(frame: Frame, request: Frame | None) -> bool:
    """Whether this frame is the answer to our request. To what it could not read the server answers without `reply_to`."""
    if "reply_to" not in frame:
        return bool(frame["type"] == "error")
    return request is not None and frame["reply_to"] == request["id"]


def _acknowledged(frame: Frame) -> str | None:
    """The response's id in the answer to a request; None where the model is silent. Raises RequestRefused."""
    if frame["type"] == "error":
        raise RequestRefused(str(frame["data"].get("message", "the server refused")))
    response_id = frame.get("response_id") or (frame["data"].get("response") or {}).get("id")
    return None if response_id is None else str(response_id)


def _raise_if_final(error: Exception) -> None:
    if isinstance(error, ConnectionClosed) and error.rcvd is not None and error.rcvd.code in FINAL_CLOSES:
        raise ConnectionRefused(FINAL_CLOSES[CloseCode(error.rcvd.code)]) from None
