"""The terminal chat's socket against a server that follows a script: what is lost, repeated or refused on the way."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.sync.server import Server, ServerConnection, serve

from app.cli.chat_connection import (
    ChatConnection,
    ConnectionRefused,
    Frame,
    RequestRefused,
    ResyncRequired,
    is_loopback,
    socket_url,
)

Handler = Callable[[ServerConnection], None]


@contextmanager
def scripted(*handlers: Handler) -> Iterator[str]:
    """A server whose nth connection is handled by the nth handler; the address to connect to."""
    left = list(handlers)
    lock = threading.Lock()

    def handle(socket: ServerConnection) -> None:
        with lock:
            handler = left.pop(0)
        handler(socket)

    server: Server = serve(handle, "127.0.0.1", 0, compression=None)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
    finally:
        server.shutdown()
        thread.join()
    assert left == [], "some connections never came"


def expect(socket: ServerConnection, kind: str) -> dict[str, Any]:
    frame = json.loads(socket.recv(timeout=5))
    assert frame["type"] == kind
    return dict(frame)


def send(socket: ServerConnection, kind: str, **fields: Any) -> None:
    socket.send(json.dumps({"type": kind, "data": {}, **fields}))


def greet(socket: ServerConnection) -> list[dict[str, Any]]:
    """Answer the hello; what is to be resumed."""
    hello = expect(socket, "session.hello")
    send(socket, "session.ready")
    return list(hello["data"]["resume"])


def delta(socket: ServerConnection, seq: int, text: str) -> None:
    send(socket, "response.output_text.delta", response_id="r1", seq=seq, data={"text": text})


def complete(socket: ServerConnection, seq: int) -> None:
    send(socket, "response.completed", response_id="r1", seq=seq)


def acknowledge(socket: ServerConnection) -> dict[str, Any]:
    request = expect(socket, "message.create")
    send(socket, "message.created", reply_to=request["id"], response_id="r1", data={"message": {"id": "m1"}})
    return request


def text_of(frames: list[Frame]) -> str:
    return "".join(frame["data"]["text"] for frame in frames if frame["type"] == "response.output_text.delta")


class Notices:
    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.pauses: list[float] = []

    def connection(self, url: str) -> ChatConnection:
        return ChatConnection(url, "secret", notice=self.sentences.append, sleep=self.pauses.append)


@pytest.fixture
def notices() -> Notices:
    return Notices()


def test_a_message_is_acknowledged_and_answered(notices: Notices) -> None:
    def server(socket: ServerConnection) -> None:
        assert socket.request is not None
        assert socket.request.headers["Authorization"] == "Bearer secret"
        assert greet(socket) == []
        assert acknowledge(socket)["data"]["content"] == "hello"
        delta(socket, 1, "good ")
        send(socket, "response.output_text.delta", response_id="another", seq=1, data={"text": "not for you"})
        send(socket, "some.new.type")
        delta(socket, 2, "day")
        complete(socket, 3)
        for _ in socket:
            pass

    with scripted(server) as url:
        connection = notices.connection(url)
        connection.open()
        frames = list(connection.say("c1", "hello"))
        connection.close()
    assert frames[0]["type"] == "message.created"
    assert text_of(frames) == "good day"
    assert notices.sentences == []


def test_a_lost_connection_is_resumed_behind_the_last_frame_and_nothing_comes_twice(notices: Notices) -> None:
    def first(socket: ServerConnection) -> None:
        greet(socket)
        acknowledge(socket)
        delta(socket, 1, "one ")
        delta(socket, 2, "two ")
        socket.close(1011)

    def second(socket: ServerConnection) -> None:
        assert greet(socket) == [{"response_id": "r1", "last_seq": 2}]
        delta(socket, 2, "two ")
        delta(socket, 3, "three")
        complete(socket, 4)
        for _ in socket:
            pass

    with scripted(first, second) as url:
        connection = notices.connection(url)
        frames = list(connection.say("c1", "count"))
        connection.close()
    assert text_of(frames) == "one two three"
    assert notices.pauses == [0.5]
    assert notices.sentences == ["The connection was lost; trying again in 0.5 s."]


def test_a_gap_is_a_lost_connection(notices: Notices) -> None:
    def first(socket: ServerConnection) -> None:
        greet(socket)
        acknowledge(socket)
        delta(socket, 1, "a")
        delta(socket, 3, "c")
        for _ in socket:
            pass

    def second(socket: ServerConnection) -> None:
        assert greet(socket) == [{"response_id": "r1", "last_seq": 1}]
        delta(socket, 2, "b")
        delta(socket, 3, "c")
        complete(socket, 4)
        for _ in socket:
            pass

    with scripted(first, second) as url:
        connection = notices.connection(url)
        assert text_of(list(connection.say("c1", "count"))) == "abc"
        connection.close()


def test_a_message_whose_acknowledgement_was_lost_is_sent_again_under_the_same_id(notices: Notices) -> None:
    asked: list[str] = []

    def first(socket: ServerConnection) -> None:
        greet(socket)
        asked.append(expect(socket, "message.create")["data"]["client_message_id"])
        socket.close(1011)

    def second(socket: ServerConnection) -> None:
        greet(socket)
        asked.append(acknowledge(socket)["data"]["client_message_id"])
        complete(socket, 1)
        for _ in socket:
            pass

    with scripted(first, second) as url:
        connection = notices.connection(url)
        list(connection.say("c1", "hello"))
        connection.close()
    assert asked[0] == asked[1]


def test_asking_for_another_answer_is_not_repeated_when_nobody_knows_whether_it_arrived(notices: Notices) -> None:
    def first(socket: ServerConnection) -> None:
        greet(socket)
        expect(socket, "response.regenerate")
        socket.close(1011)

    def second(socket: ServerConnection) -> None:
        greet(socket)
        for _ in socket:
            pass

    with scripted(first, second) as url:
        connection = notices.connection(url)
        with pytest.raises(RequestRefused, match="lost"):
            list(connection.regenerate("m1"))
        connection.close()


def test_stop_cancels_the_answer_and_shows_it_to_its_end(notices: Notices) -> None:
    def server(socket: ServerConnection) -> None:
        greet(socket)
        acknowledge(socket)
        delta(socket, 1, "and so ")
        assert expect(socket, "response.cancel")["data"] == {"response_id": "r1"}
        delta(socket, 2, "on")
        send(socket, "response.cancelled", response_id="r1", seq=3)
        for _ in socket:
            pass

    with scripted(server) as url:
        connection = notices.connection(url)
        frames = []
        for frame in connection.say("c1", "go on"):
            frames.append(frame)
            if frame.get("seq") == 1:
                connection.stop()
        connection.close()
    assert text_of(frames) == "and so on"
    assert frames[-1]["type"] == "response.cancelled"


@pytest.mark.parametrize(("code", "words"), [(4001, "not signed in"), (4003, "may not chat"), (4009, "administrator")])
def test_a_close_that_would_happen_again_is_not_tried_again(notices: Notices, code: int, words: str) -> None:
    def server(socket: ServerConnection) -> None:
        greet(socket)
        expect(socket, "message.create")
        socket.close(code)

    with scripted(server) as url:
        connection = notices.connection(url)
        with pytest.raises(ConnectionRefused, match=words):
            list(connection.say("c1", "hello"))
    assert notices.pauses == []


def test_an_error_in_reply_is_a_sentence(notices: Notices) -> None:
    def server(socket: ServerConnection) -> None:
        greet(socket)
        request = expect(socket, "message.create")
        send(
            socket,
            "error",
            reply_to=request["id"],
            data={"code": "not_found", "message": "there is no such conversation"},
        )
        for _ in socket:
            pass

    with scripted(server) as url:
        connection = notices.connection(url)
        with pytest.raises(RequestRefused, match="no such conversation"):
            list(connection.say("c1", "hello"))
        connection.close()


def test_what_cannot_be_resumed_says_so(notices: Notices) -> None:
    def server(socket: ServerConnection) -> None:
        assert greet(socket) == [{"response_id": "r1", "last_seq": 7}]
        send(socket, "resync_required", response_id="r1", data={"reason": "gone"})
        for _ in socket:
            pass

    with scripted(server) as url:
        connection = notices.connection(url)
        with pytest.raises(ResyncRequired):
            list(connection.follow("r1", 7))
        connection.close()


def test_nobody_there_is_a_sentence_at_once(notices: Notices) -> None:
    with pytest.raises(ConnectionRefused, match=r"no socket to ws://127\.0\.0\.1:1/ws"):
        notices.connection("http://127.0.0.1:1").open()
    assert notices.pauses == []


def test_pauses_grow_up_to_a_limit(notices: Notices) -> None:
    def close(socket: ServerConnection) -> None:
        socket.close(1013)

    def answer(socket: ServerConnection) -> None:
        greet(socket)
        acknowledge(socket)
        complete(socket, 1)
        for _ in socket:
            pass

    with scripted(*[close] * 7, answer) as url:
        connection = notices.connection(url)
        list(connection.say("c1", "hello"))
        connection.close()
    assert notices.pauses == [0.5, 1, 2, 4, 8, 15, 15]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8080", "ws://127.0.0.1:8080/ws"),
        ("https://chat.example/", "wss://chat.example/ws"),
        ("https://example.org/chat", "wss://example.org/chat/ws"),
    ],
)
def test_the_sockets_address_follows_from_the_servers(url: str, expected: str) -> None:
    assert socket_url(url) == expected


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8080", True),
        ("http://localhost", True),
        ("http://[::1]:80", True),
        ("http://127.evil.example", False),
        ("https://chat.example", False),
    ],
)
def test_only_this_machine_is_this_machine(url: str, here: bool) -> None:
    assert is_loopback(url) is here


def test_a_frame_the_server_cannot_read_is_refused_and_not_waited_for(notices: Notices) -> None:
    def server(socket: ServerConnection) -> None:
        greet(socket)
        expect(socket, "message.create")
        send(socket, "error", data={"code": "malformed_json", "message": "the frame is not JSON"})
        for _ in socket:
            pass

    with scripted(server) as url:
        connection = notices.connection(url)
        with pytest.raises(RequestRefused, match="the frame is not JSON"):
            list(connection.say("c1", "hello"))
        connection.close()


def test_what_is_too_large_for_a_frame_is_not_sent_again_and_again(notices: Notices) -> None:
    def server(socket: ServerConnection) -> None:
        greet(socket)
        expect(socket, "message.create")
        socket.close(1009)

    with scripted(server) as url:
        connection = notices.connection(url)
        with pytest.raises(ConnectionRefused, match="more than the server takes at once"):
            list(connection.say("c1", "hello"))
        connection.close()
    assert notices.pauses == []


def test_letters_beyond_ascii_are_sent_as_they_are(notices: Notices) -> None:
    def server(socket: ServerConnection) -> None:
        greet(socket)
        text = str(socket.recv(timeout=5))
        assert "größer 東京" in text
        send(socket, "message.created", reply_to=json.loads(text)["id"], response_id="r1", data={})
        complete(socket, 1)
        for _ in socket:
            pass

    with scripted(server) as url:
        connection = notices.connection(url)
        assert len(list(connection.say("c1", "größer 東京"))) == 2
        with pytest.raises(RequestRefused, match="not UTF-8 at character 2"):
            connection.say("c1", "gr\udcfc")
        connection.close()


def test_a_server_that_stays_away_ends_the_attempts_where_nobody_can(notices: Notices) -> None:
    connection = ChatConnection(
        "http://127.0.0.1:1", "secret", notice=notices.sentences.append, attempts=3, sleep=notices.pauses.append
    )
    with pytest.raises(ConnectionRefused, match="3 attempts failed"):
        list(connection.say("c1", "hello"))
    assert notices.pauses == [0.5, 1, 2]


def test_stop_ends_the_waiting_for_a_server_that_is_away(notices: Notices) -> None:
    def stop_waiting(_seconds: float) -> None:
        connection.stop()

    connection = ChatConnection("http://127.0.0.1:1", "secret", notice=notices.sentences.append, sleep=stop_waiting)
    with pytest.raises(RequestRefused, match="not connected"):
        list(connection.say("c1", "hello"))
